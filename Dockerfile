# The page in a container, without root, on port 7860.
#
#   CPU    docker build -t nitro-canvas .
#   CUDA   docker build -t nitro-canvas --build-arg BASE=pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime .
#   ROCm   docker build -t nitro-canvas --build-arg BASE=rocm/pytorch:rocm7.0_ubuntu24.04_py3.12_pytorch_release_2.8.0 .
#
#   docker run --rm -p 7860:7860 nitro-canvas                 (add --gpus all for CUDA,
#       --device /dev/kfd --device /dev/dri --group-add video for ROCm)
#
# Any base with Python >= 3.11 will do. Where it brings a torch >= 2.8, that torch is kept.
ARG BASE=python:3.11-slim
FROM ${BASE}

ENV PIP_NO_CACHE_DIR=1 \
    PIP_BREAK_SYSTEM_PACKAGES=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# Some bases have a user 1000 already; what matters is the number and a home it may write to.
RUN (id -u 1000 >/dev/null 2>&1 || useradd --uid 1000 --no-create-home --home-dir /home/nitro nitro) \
    && mkdir -p /home/nitro/app && chown -R 1000 /home/nitro
WORKDIR /home/nitro/app

# An extra package index (for example one with CPU builds of torch) may be given as a build argument.
ARG PIP_EXTRA_INDEX_URL
COPY requirements.txt constraints.txt ./
COPY deploy/install.sh deploy/
RUN sh deploy/install.sh python requirements.txt

COPY --chown=1000 . .

USER 1000
ENV HOME=/home/nitro \
    HF_HOME=/home/nitro/.cache/huggingface \
    GRADIO_TEMP_DIR=/tmp/gradio \
    GRADIO_ANALYTICS_ENABLED=False \
    NITRO_HOST=0.0.0.0 \
    NITRO_PORT=7860
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ['NITRO_PORT'] + '/healthz', timeout=4)"]
CMD ["python", "app.py"]
