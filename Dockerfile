# docker build -t binlog-relay .
# docker run --shm-size 256m -v relay:/var/lib/relay -v ./relay.conf:/etc/relay/relay.conf:ro -p 6001:6001 -p 6081:6081 binlog-relay
FROM debian:trixie-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make python3-dev python3-venv ca-certificates
WORKDIR /src
COPY requirements.lock ./
RUN python3 -m venv /venv && /venv/bin/pip install --require-hashes --requirement requirements.lock
COPY . .
RUN /venv/bin/pip wheel --no-index --no-build-isolation --no-deps --wheel-dir /dist .

FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --home-dir /var/lib/relay --create-home relay
COPY --from=build /dist /dist
COPY requirements.lock /dist/
# The lock file pins what the wheel depends on; what only building and testing need is left out.
RUN python3 -m venv /opt/relay \
    && /opt/relay/bin/pip install --no-cache-dir --constraint /dist/requirements.lock /dist/*.whl \
    && ln -s /opt/relay/bin/relay /usr/local/bin/relay && rm -rf /dist
USER relay
VOLUME /var/lib/relay
EXPOSE 6001 6081
STOPSIGNAL SIGTERM
ENTRYPOINT ["relay"]
CMD ["start", "-c", "/etc/relay/relay.conf"]
