# Armilla as a container that starts where an emulator container was: the same ports, files and words (docs/container.md).
#
#   docker build -t armilla .
#   docker run -p 8081:8081 -p 8080:8080 -v armilla:/data armilla

FROM rust:1-alpine AS build
RUN apk add --no-cache build-base cmake clang-dev perl
WORKDIR /src
COPY . .
# Static, without debugging information: nothing else is in the image, which has to stay under 25 MB.
RUN cargo build --profile dist --locked --package armilla \
    && test "$(stat -c %s target/dist/armilla)" -lt 25000000 && mkdir /data

FROM scratch
COPY --from=build /src/target/dist/armilla /armilla
COPY --from=build --chown=10001:10001 /data /data
# Not root: the volume belongs to this user.
USER 10001:10001
ENV ARMILLA_HOST=0.0.0.0 \
    ARMILLA_HEALTH_PORT=8080 \
    ARMILLA_EXPLORER_PORT=1234 \
    ARMILLA_DATA=/data \
    ARMILLA_ALLOW_WELL_KNOWN_KEY=true
VOLUME /data
EXPOSE 8081 8080 1234
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["/armilla", "ready"]
ENTRYPOINT ["/armilla"]
