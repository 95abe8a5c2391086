# One image for everything that runs: Ray's head and workers, boot, exporters, the migration, and the command line.
# docker build --tag shardclock:1.0.0 .

FROM python:3.11.13-slim-bookworm AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/shardclock
ENV PATH=/opt/shardclock/bin:$PATH
# The locked packages first: they stay in the cache while only our code changes.
COPY requirements.lock ./
RUN pip install --require-hashes --no-deps --only-binary :all: -r requirements.lock
COPY . .
# Without a network: all it needs is there. Then everything that is only for developing goes, and pip itself.
RUN pip install --no-index --no-build-isolation --no-deps ./client . \
    && pip uninstall --yes $(python k8s/image/leftovers.py 'shardclock[ray]') \
    && pip check \
    && pip uninstall --yes pip

FROM python:3.11.13-slim-bookworm
LABEL org.opencontainers.image.title="shardclock" \
      org.opencontainers.image.description="A durable timer cluster on Postgres and Ray" \
      org.opencontainers.image.licenses="Apache-2.0"
# Ray asks for its user's name. A login shell, which KubeRay can be told to use, would reset PATH.
RUN groupadd --gid 10001 shardclock \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin shardclock \
    && echo 'PATH=/opt/shardclock/bin:$PATH' > /etc/profile.d/shardclock.sh
COPY --from=builder /opt/shardclock /opt/shardclock
# The root file system may be read-only: only /tmp, /dev/shm and the exporter's socket directory are written to.
ENV PATH=/opt/shardclock/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RAY_USAGE_STATS_ENABLED=0
WORKDIR /tmp
USER 10001:10001
CMD ["shardclock", "--help"]
