# The rerank server, without TensorFlow, as a user that is not root.
#
#   docker build -t dipair .
#   docker run --rm -p 8000:8000 dipair  # the student that the package brings
#   docker run --rm -p 8000:8000 -v $PWD/runs/mine:/mine:ro dipair --export=/mine/export
#
# Never built: no Docker was at hand. Its pip steps, command and health check ran in a bare Python 3.13.

FROM python:3.13-slim AS build
WORKDIR /source
COPY setup.py pyproject.toml README.md LICENSE ./
COPY configs configs
COPY pretrained pretrained
COPY common common
COPY dipair dipair
COPY dse dse
COPY constraints.txt /wheels/
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
  pip install --no-cache-dir -c /wheels/constraints.txt "$(echo /wheels/dipair-*.whl)[serve,store]"
RUN useradd --create-home dipair
USER dipair
EXPOSE 8000
HEALTHCHECK --start-period=60s \
  CMD ["python", "-c", "from urllib import request; request.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
ENTRYPOINT ["dipair", "serve", "--host=0.0.0.0"]
CMD ["--export=medquad"]
