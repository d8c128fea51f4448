// Searches as one types, or reranks the documents of the box. All text goes in by textContent, so
// none of it is ever markup.
'use strict';

const byId = (id) => document.getElementById(id);
const KEY = 'api_key';
const SHOWN = 10;
let searches = false;
let running = new AbortController();
let took = 0;  // milliseconds of the last request's round trip

async function ask(path, body) {
  running.abort();  // a later query has been typed
  running = new AbortController();
  const headers = {'Content-Type': 'application/json'};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  const sent = body && {method: 'POST', body: JSON.stringify(body)};
  const started = performance.now();
  const answer = await fetch(path, {...sent, headers, signal: running.signal}).catch((error) => {
    throw error.name === 'AbortError' ? error : new Error('The server does not answer.');
  });
  const found = await answer.json().catch((error) => {
    throw error.name === 'AbortError' ? error : new Error(`The server answers ${answer.status}.`);
  });
  took = performance.now() - started;
  if (answer.status === 401) askForKey();
  if (!answer.ok) throw new Error(found.message);
  return found;
}

function askForKey() {
  byId('form').hidden = true;
  byId('key-form').hidden = false;
  byId('key').focus();
}

function say(text, failed = false) {
  byId('status').textContent = text;
  byId('status').classList.toggle('error', failed);
}

function fail(error) {
  if (error.name === 'AbortError') return;
  byId('columns').hidden = true;  // its rows are an earlier query's
  say(error.message, true);
}

function span(text, className) {
  const made = document.createElement('span');
  made.textContent = text;
  made.className = className;
  return made;
}

function moved(place, before) {
  if (place === before) return span('= same', 'moved');
  return before > place ? span(`↑ from ${before}`, 'moved up') : span(`↓ from ${before}`, 'moved');
}

// Fills a list with [text, score, how it moved] of each document, in this order.
function fill(list, rows) {
  byId(list).replaceChildren(...rows.map(([text, score, how], i) => {
    const item = document.createElement('li');
    const bar = span('', 'bar');
    const share = document.createElement('i');
    share.style.width = `${100 * score}%`;
    bar.append(share);
    item.append(span(i + 1, 'place'), span(text, 'text'), bar, span(score.toFixed(3), 'score'), how);
    return item;
  }));
}

const text = (one) => one.document.text ?? one.id;  // the table may lack some of the store

async function search(query) {
  const found = await ask('/v1/search', {query, top_n: SHOWN, return_documents: true});
  const places = new Map(found.results.map((one, i) => [one.id, i + 1]));
  fill('ours', found.results.map((one, i) => [
    text(one), one.relevance_score, moved(i + 1, one.first_stage_rank)]));
  fill('theirs', found.first_stage.map((one) => [
    text(one), one.relevance_score,
    span(places.has(one.id) ? `now ${places.get(one.id)}` : `below ${SHOWN}`, 'moved')]));
  const {encode, first_stage: first, head} = found.ms;
  return `encode ${encode.toFixed(1)}, first stage ${first.toFixed(1)}, head ${head.toFixed(1)}`;
}

async function rerank(query) {
  const documents = byId('documents').value.split('\n').filter((line) => line.trim());
  say('Reranking…');
  const found = await ask('/v1/rerank', {query, documents});
  fill('ours', found.results.map((one, i) => [
    documents[one.index], one.relevance_score, moved(i + 1, one.index + 1)]));
  return `${found.usage.encoded_documents} of ${documents.length} documents encoded`;
}

async function run() {
  const query = byId('query').value.trim();
  if (searches) history.replaceState(null, '', query ? `?q=${encodeURIComponent(query)}` : '/');
  if (!query) {
    running.abort();
    byId('columns').hidden = true;
    say('');
    return;
  }
  const how = await (searches ? search : rerank)(query);
  say(`${took.toFixed(0)} ms round trip: ${how}`);
  byId('columns').hidden = false;
}

async function start() {
  const {data: [model]} = await ask('/v1/models');
  searches = model.search && model.texts;
  byId('about').textContent =
      model.id + (searches ? `, ${model.stored.toLocaleString('en')} documents` : '');
  byId('meaning').lastElementChild.textContent = model.meaning;
  byId('go').textContent = searches ? 'Search' : 'Rerank';
  byId('given').hidden = searches;
  byId('first').hidden = !searches;
  byId('form').hidden = byId('meaning').hidden = false;
  const asked = new URLSearchParams(location.search).get('q');
  byId('query').value = searches ? asked || '' : 'what causes gout';
  byId('query').focus();
  if (searches) await run();
}

let waiting = 0;
byId('query').addEventListener('input', () => {
  clearTimeout(waiting);
  if (searches) waiting = setTimeout(() => run().catch(fail), 120);
});
byId('form').addEventListener('submit', (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  run().catch(fail);
});
byId('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, byId('key').value);
  location.reload();
});
start().catch(fail);
