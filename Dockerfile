# Builds from a checkout: docker build -t perseid .
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/perseid && /opt/perseid/bin/pip install --no-cache-dir '.[postgres,yaml]'

FROM python:3.12-slim
COPY --from=build /opt/perseid /opt/perseid
RUN useradd --system --uid 10001 perseid && install -d -o perseid /data
USER perseid
VOLUME /data
EXPOSE 8081
ENV PERSEID_HOST=0.0.0.0 PERSEID_DATA=/data PATH=/opt/perseid/bin:$PATH
HEALTHCHECK --interval=2s --timeout=3s --start-period=10s CMD \
    python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:8081/_perseid/ready', timeout=2)"
ENTRYPOINT ["perseid", "serve"]
