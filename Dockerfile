# Holdfast in a container. `compose.yaml` runs it with PostgreSQL and NATS; docs/guides/install.md says the rest.
FROM node:22-slim AS console
WORKDIR /src/console
COPY docs/reference/openapi.json /src/docs/reference/
COPY console ./
RUN npm ci && npm run build

FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY console/hatch_build.py console/hatch_build.py
COPY src src
COPY --from=console /src/src/holdfast/console/static src/holdfast/console/static
# The last command makes the Japanese vectors of recall, as `make japanese` does.
RUN python -m venv /opt/holdfast \
    && /opt/holdfast/bin/pip install --no-cache-dir -c constraints.txt \
        '.[anthropic,memory,nats,openai,postgres,uvloop,web]' \
    && pip download --no-cache-dir --no-deps -d /tmp ja-ginza==5.3.0 \
    && /opt/holdfast/bin/python -I -m holdfast.memory.japanese /tmp/ja_ginza-5.3.0-py3-none-any.whl

FROM python:3.12-slim
# hadolint ignore=DL3008 # the newest bubblewrap of the image's Debian is wanted
RUN apt-get update \
    && apt-get install --no-install-recommends -y bubblewrap \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 holdfast \
    && install -d -o holdfast -g holdfast /workspace
COPY --from=build /opt/holdfast /opt/holdfast
ENV PATH=/opt/holdfast/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /workspace
EXPOSE 5050
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:5050/ready', timeout=2)"]
CMD ["holdfast", "serve", "--host", "0.0.0.0", "--workspace", "/workspace"]
