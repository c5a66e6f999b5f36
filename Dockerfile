# Serves a model folder, mounted at /model, on port 8321:
#   docker build -t accous .
#   docker run -p 8321:8321 -v "$PWD/model:/model" -v "$PWD/tokens.txt:/run/secrets/accous-tokens:ro" accous
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/accous && /opt/accous/bin/pip install --no-cache-dir '.[serve]'

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/accous --create-home accous
COPY --from=build /opt/accous /opt/accous
ENV PATH="/opt/accous/bin:$PATH" PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/var/lib/accous/numba
USER 10001
# Compiled once, when the image is built, and not at every start.
RUN python -c "from accous.core.compiled import compile_all; compile_all()"
VOLUME /model
EXPOSE 8321
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8321/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["accous", "serve", "/model", "--host", "0.0.0.0", "--token-file", "/run/secrets/accous-tokens"]
