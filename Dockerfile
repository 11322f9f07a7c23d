# syntax=docker/dockerfile:1
# docker build -t pointsman --build-arg REVISION=$(git rev-parse --short=12 HEAD) --build-arg REVISION_DATE=$(git show -s --format=%cs) .

FROM rust:1.95-alpine AS build
# A C compiler for zstd and mimalloc. Alpine is a musl host, so the binary is static.
RUN apk add --no-cache musl-dev gcc make
WORKDIR /src
COPY . .
ARG REVISION=unknown
ARG REVISION_DATE=unknown
ENV POINTSMAN_REVISION=$REVISION POINTSMAN_REVISION_DATE=$REVISION_DATE
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package pointsman --bin pointsman && cp target/release/pointsman /pointsman && mkdir /data

FROM gcr.io/distroless/static-debian12:nonroot
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Pointsman" \
      org.opencontainers.image.description="A routing gateway for language models" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/pointsman/pointsman" \
      org.opencontainers.image.revision=$REVISION
COPY --from=build /pointsman /usr/bin/pointsman
COPY --from=build --chown=65532:65532 /data /var/lib/pointsman
COPY deploy/docker/config.toml /etc/pointsman/config.toml
USER 65532:65532
EXPOSE 8080
# Everything that is written lies here; the root file system may be read-only.
VOLUME /var/lib/pointsman
# The image has no shell and no HTTP client: the program asks itself. Orchestrators ask GET /health/ready instead, as deploy/helm does.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/bin/pointsman", "health", "--config", "/etc/pointsman/config.toml"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/pointsman"]
CMD ["serve", "--config", "/etc/pointsman/config.toml"]
