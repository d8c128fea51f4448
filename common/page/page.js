// Ranks as one types; all text goes in by textContent, so none of it is ever markup.
'use strict';

const byId = (id) => document.getElementById(id);
const digits = (value) => value.toFixed(3);
let info = {models: [], teacher: false, attention: false};
let latest = 0;

async function ask(path, body) {
  const answer = await fetch(path, body && {method: 'POST', body: JSON.stringify(body)})
      .catch(() => { throw new Error('The server does not answer.'); });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function say(place, text, failed = false) {
  place.textContent = text;
  place.classList.toggle('error', failed);
}

function element(name, text = '', className = '') {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

async function start() {
  info = await ask('/demo/info');
  byId('about').textContent =
      `${info.candidates.toLocaleString('en')} texts, ranked live. ` +
      (info.attention ? 'Enter on a result shows what the head attends to. ' : '') +
      'A development server.';
  byId('teacher-switch').hidden = !info.teacher;
  info.models.forEach((name, number) => {
    const section = byId('column').content.cloneNode(true).firstElementChild;
    section.querySelector('h2').textContent = name;
    section.id = `model-${number}`;
    byId('columns').append(section);
  });
  const asked = new URLSearchParams(location.search).get('q');
  if (asked) byId('query').value = asked;
  search();
}

async function search() {
  const query = byId('query').value.trim();
  const mine = ++latest;
  history.replaceState(null, '', query ? `?q=${encodeURIComponent(query)}` : location.pathname);
  await Promise.all(info.models.map(async (_, model) => {
    const section = byId(`model-${model}`);
    const list = section.querySelector('ol');
    const times = section.querySelector('.times');
    if (!query) {
      list.replaceChildren();
      say(times, '');
      return;
    }
    try {
      const found = await ask('/demo/rank', {query, model, top_k: 10}).catch((error) => {
        if (mine === latest) list.replaceChildren();  // they are an earlier query's
        throw error;
      });
      if (mine !== latest) return;  // a later query has been typed
      const {encode, rank} = found.ms;
      say(times, `${(encode + rank).toFixed(0)} ms: encode ${encode.toFixed(1)}, ` +
          `rank ${rank.toFixed(1)}`);
      list.replaceChildren(...found.results.map((one) => row(one, query, model)));
      if (byId('teacher').checked) await teach(query, found.results, list, mine);
    } catch (error) {
      if (mine === latest) say(times, error.message, true);
    }
  }));
}

function row(one, query, model) {
  const item = element('li');
  const button = element(info.attention ? 'button' : 'div', '', 'row');
  const scores = element('span');
  scores.append(element('span', digits(one.score), 'score'), element('br'),
                element('span', '', 'of-teacher'));
  const bar = element('span', '', 'bar');
  const share = element('i');
  share.style.width = `${100 * Math.max(0, Math.min(1, one.score))}%`;
  bar.append(share);
  button.append(scores, element('span', one.text), bar);
  button.tabIndex = info.attention ? 0 : -1;  // the arrows reach both
  if (info.attention) {
    button.addEventListener('click', () => show(one, query, model).catch(
        (error) => say(byId(`model-${model}`).querySelector('.times'), error.message, true)));
  }
  item.append(button);
  return item;
}

async function teach(query, results, list, mine) {
  const found = await ask('/demo/teacher', {query, ids: results.map((one) => one.id)});
  if (mine !== latest) return;
  [...list.children].forEach((item, i) => {
    const place = item.querySelector('.of-teacher');
    place.textContent = digits(found.scores[i]);
    place.title = "the teacher's score";
  });
}

async function show(one, query, model) {
  const found = await ask('/demo/pair', {query, id: one.id, model});
  byId('pair-text').textContent = `${query} — ${one.text}`;
  const count = found.left.length;
  const tokens = [...found.left, ...found.right];
  byId('maps').replaceChildren(...found.attention.map((layer, number) => {
    const table = element('table');
    table.append(element('caption', `Layer ${number + 1}`));
    const head = element('tr');
    head.append(element('td'));
    tokens.forEach((token, i) => head.append(element('th', token, i < count ? '' : 'right')));
    table.createTHead().append(head);
    const body = table.createTBody();
    layer.forEach((shares, i) => {
      const line = element('tr');
      line.append(element('th', tokens[i], i < count ? '' : 'right'));
      shares.forEach((share, j) => {
        const cell = element('td');
        cell.style.setProperty('--share', share.toFixed(3));
        cell.title = `${tokens[i]} → ${tokens[j]}: ${share.toFixed(3)}`;
        line.append(cell);
      });
      body.append(line);
    });
    return table;
  }));
  byId('pair').showModal();
}

let waiting = 0;
byId('query').addEventListener('input', () => {
  clearTimeout(waiting);
  waiting = setTimeout(search, 120);
});
byId('teacher').addEventListener('change', search);
byId('form').addEventListener('submit', (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  search();
});
document.addEventListener('keydown', (event) => {
  const rows = [...document.querySelectorAll('.row')];
  const at = rows.indexOf(document.activeElement);
  if (event.key === '/' && document.activeElement !== byId('query')) {
    event.preventDefault();
    byId('query').select();
  } else if (event.key === 'ArrowDown' && rows.length && !byId('pair').open) {
    event.preventDefault();
    rows[Math.min(at + 1, rows.length - 1)].focus();
  } else if (event.key === 'ArrowUp' && at >= 0 && !byId('pair').open) {
    event.preventDefault();
    (at ? rows[at - 1] : byId('query')).focus();
  }
});
start().catch((error) => say(byId('about'), error.message, true));
