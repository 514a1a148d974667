# docker build -t binlog-relay .            docs/container.md says how to run it
# The build runs on the builder's own processor and compiles for the image's. Both bases may be replaced by others of Debian 13.
ARG BASE=debian:trixie-slim
ARG BUILDER=debian:trixie-slim

FROM --platform=$BUILDPLATFORM ${BUILDER} AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-dev python3-venv zlib1g-dev
WORKDIR /src
COPY requirements-wheels.lock requirements-image.lock ./
# A machine behind a proxy gives pip's settings and its certificates as secrets (scripts/image.sh): they stay out of the image.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=certificates \
    python3 -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements-wheels.lock
ARG TARGETARCH
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=certificates \
    case $TARGETARCH in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac \
    && /venv/bin/pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: --target /opt/relay \
       --platform manylinux_2_28_$machine --platform manylinux_2_17_$machine --platform manylinux2014_$machine \
       --requirement requirements-image.lock
COPY . .
RUN --mount=type=cache,target=/root/.cache/zig \
    case $TARGETARCH in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac \
    && /venv/bin/python -m scripts.wheels glibc-$machine \
    && /venv/bin/pip install --no-index --no-deps --only-binary :all: --upgrade --target /opt/relay \
       --platform manylinux_2_28_$machine --platform manylinux_2_27_$machine --platform manylinux_2_17_$machine dist/*.whl \
    && sed -i '1s|.*|#!/usr/bin/python3|' /opt/relay/bin/relay

FROM --platform=$TARGETPLATFORM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 tzdata \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
# Group 0: where the platform runs the image as a user of its own, that user is in this group.
RUN useradd --uid 10001 --gid 0 --no-create-home --home-dir /var/lib/relay relay \
    && install -d -o relay -g 0 -m 0770 /var/lib/relay /var/log/replicaterelay
COPY --from=build /opt/relay /opt/relay
# Outside, only published ports are reached. The variables are stronger than the file.
ENV PATH=/opt/relay/bin:$PATH PYTHONPATH=/opt/relay LANG=C.UTF-8 RELAY_SERVER_HTTPADDRESS=0.0.0.0 RELAY_SERVER_HTTPPORT=6081
USER 10001:0
VOLUME /var/lib/relay
EXPOSE 6001 6081
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD python3 -c "import urllib.request as web; \
    web.build_opener(web.ProxyHandler({})).open('http://127.0.0.1:$RELAY_SERVER_HTTPPORT/healthz', timeout=4)"
STOPSIGNAL SIGTERM
ENTRYPOINT ["relay"]
CMD ["start"]
