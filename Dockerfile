# docker build -t binlog-relay .
# docker run --shm-size 256m -v relay:/var/lib/relay -v ./relay.conf:/etc/relay/relay.conf:ro -p 6001:6001 -p 6081:6081 binlog-relay
FROM debian:trixie-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates g++ python3-dev python3-venv zlib1g-dev
WORKDIR /src
COPY requirements.lock ./
# Downloaded once, checked against the lock file's hashes; both stages install from these files alone.
RUN python3 -m venv /venv \
    && /venv/bin/pip download --require-hashes --requirement requirements.lock --dest /wheels \
    && /venv/bin/pip install --no-index --find-links /wheels --requirement requirements.lock
COPY . .
RUN /venv/bin/pip wheel --no-index --no-build-isolation --no-deps --wheel-dir /wheels .

FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-venv tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --home-dir /var/lib/relay --create-home relay \
    && install -d -o relay -g relay /var/log/replicaterelay
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python3 -m venv /opt/relay \
    && /opt/relay/bin/pip install --no-cache-dir --no-index --find-links /wheels binlog-relay \
    && ln -s /opt/relay/bin/relay /usr/local/bin/relay
# Only published ports are reached from outside.
ENV RELAY_SERVER_HTTPADDRESS=0.0.0.0
USER relay
VOLUME /var/lib/relay
EXPOSE 6001 6081
STOPSIGNAL SIGTERM
ENTRYPOINT ["relay"]
CMD ["start", "-c", "/etc/relay/relay.conf"]
