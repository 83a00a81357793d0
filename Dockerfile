# Build from a checkout: docker build -t perseid .
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/perseid && /opt/perseid/bin/pip install --no-cache-dir '.[postgres]'

FROM python:3.12-slim
COPY --from=build /opt/perseid /opt/perseid
RUN useradd --system --uid 10001 perseid && install -d -o perseid /data && \
    ln -s data /perseid-data
USER 10001
VOLUME /data
EXPOSE 8081 8443
# PERSEID_DATA would contradict --memory, so the default directory, perseid-data, links to the volume.
WORKDIR /
# A server with --memory or --store keeps its certificate in XDG_STATE_HOME.
ENV PERSEID_HOST=0.0.0.0 XDG_STATE_HOME=/data PATH=/opt/perseid/bin:$PATH
# Uses environment variables only: it cannot see the flags after the name of the image.
HEALTHCHECK --interval=2s --timeout=3s --start-period=10s CMD ["python", "-c", \
    "import os, ssl, urllib.request as web; \
    tls = os.environ.get('PERSEID_TLS', '').lower() in ('1', 'true', 't', 'yes', 'y', 'on'); \
    url = ('https' if tls else 'http') + '://127.0.0.1:' + os.environ.get('PERSEID_PORT', '8081'); \
    web.urlopen(url + '/_perseid/ready', timeout=2, context=ssl._create_unverified_context())"]
ENTRYPOINT ["perseid", "serve"]
