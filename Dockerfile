# docker build -t duetime .
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
COPY requirements/container.txt requirements/
RUN python -m venv /opt/duetime \
 && /opt/duetime/bin/pip install --require-hashes -r requirements/container.txt
# What your tasks import: docker build --build-arg PACKAGES="pandas httpx" -t duetime .
ARG PACKAGES=""
RUN test -z "$PACKAGES" || /opt/duetime/bin/pip install $PACKAGES
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/duetime/bin/pip install --no-deps --no-build-isolation . \
 && /opt/duetime/bin/pip uninstall --yes hatchling pip \
 && python -m compileall -q /opt/duetime/lib

FROM python:3.13-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin duetime \
 && install -d -o 10001 -g 10001 -m 0700 /data
COPY --from=build /opt/duetime /opt/duetime
# Everything that is written is in /data, so the rest of the file system may be read-only. PIP_PYTHON lets images that
# build on this one install with `pip install` what tasks import.
ENV PATH=/opt/duetime/bin:$PATH \
    PIP_PYTHON=/opt/duetime/bin/python \
    HOME=/data \
    XDG_DATA_HOME=/data \
    XDG_CONFIG_HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DUETIME_HOST=0.0.0.0 \
    DUETIME_PORT=8765
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8765
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"DUETIME_PORT\"]}/readyz', timeout=4)"]
ENTRYPOINT ["duetime"]
CMD ["serve", "--no-link"]
