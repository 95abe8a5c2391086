# One image for everything that runs: Ray's head and workers, boot, exporters, the migration, and the command line.
# docker build --tag shardclock:1.0.0 .

# The digest is that of the index of all platforms.
ARG PYTHON=python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1

FROM ${PYTHON} AS locked
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/shardclock
ENV PATH=/opt/shardclock/bin:$PATH
COPY requirements.lock ./
RUN pip install --require-hashes --no-deps --only-binary :all: -r requirements.lock

# The packages that run, without the tools for development and without pip. This layer is the largest by far, and stays
# the same while only our code changes.
FROM locked AS dependencies
COPY pyproject.toml ./
COPY client/pyproject.toml client/
COPY k8s/image/leftovers.py k8s/image/
RUN pip uninstall --yes $(python k8s/image/leftovers.py ray) \
    && pip check \
    && pip uninstall --yes pip

# Our own code and the bill of materials, without a network: the tools are there.
FROM locked AS server
ENV SERVER=/server
COPY . .
RUN pip install --no-index --no-build-isolation --no-deps --prefix "$SERVER" ./client . \
    && PYTHONPATH="$(echo "$SERVER"/lib/python3.*/site-packages)" \
       python k8s/image/sbom.py ray > "$SERVER/sbom.cdx.json"

FROM ${PYTHON}
ARG REVISION=unknown
LABEL org.opencontainers.image.title="shardclock" \
      org.opencontainers.image.description="A durable timer cluster on Postgres and Ray" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0 AND 0BSD"
# Ray asks for its user's name. A login shell, which KubeRay can be told to use, would reset PATH.
RUN groupadd --gid 10001 shardclock \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin shardclock \
    && echo 'PATH=/opt/shardclock/bin:$PATH' > /etc/profile.d/shardclock.sh
COPY --from=dependencies /opt/shardclock /opt/shardclock
COPY --from=server /server /opt/shardclock
# The root file system may be read-only: only /tmp, /dev/shm and the exporter's socket directory are written to.
ENV PATH=/opt/shardclock/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RAY_USAGE_STATS_ENABLED=0
WORKDIR /tmp
USER 10001:10001
# Of a cluster, an exporter or a gateway; a command that ends needs none. Kubernetes has probes of its own.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as it; it.urlopen(f\"http://127.0.0.1:{os.environ.get('SHARDCLOCK_METRICS_PORT', 9840)}/readyz\", timeout=4)"]
CMD ["shardclock", "--help"]
