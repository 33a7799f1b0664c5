# A static binary and nothing else: no shell, no package manager, not root.
#
#   docker build -t aconite .
#   docker run --rm -p 8474:8474 -p 8666:8666 aconite                     in Toxiproxy's place, root routes open
#   docker run --rm --entrypoint /aconite aconite demo                    any other command
FROM rust:1.95-slim-bookworm AS build
# zstd and ring are C: they need a compiler that links against musl.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates musl-tools \
 && rm -rf /var/lib/apt/lists/* \
 && rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin aconite --target "$(uname -m)-unknown-linux-musl"
# The other names are Toxiproxy's: the program looks at the name that it was started under.
RUN mkdir -p /data /image/etc/ssl/certs \
 && cp "target/$(uname -m)-unknown-linux-musl/dist/aconite" /image/aconite \
 && ln -s aconite /image/toxiproxy \
 && ln -s aconite /image/toxiproxy-server \
 && ln -s aconite /image/toxiproxy-cli \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/

FROM scratch
COPY --from=build /image/ /
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
# The local CA lives here; mount a volume to keep it.
ENV ACONITE_DATA_DIR=/data LOG_LEVEL=info
EXPOSE 8474
ENTRYPOINT ["/toxiproxy"]
CMD ["-host=0.0.0.0"]
