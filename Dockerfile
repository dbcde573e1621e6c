# docker build -t fairbench . && mkdir -p results
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/results:/home/fairbench/results" fairbench
# runs the embedded study. Other commands: docker run --rm fairbench list
#
# A smaller image, without torch's libraries for GPUs: --build-arg PIP_EXTRA_INDEX_URL=<an index with CPU builds of torch>

FROM python:3.12-slim AS build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG PIP_EXTRA_INDEX_URL
COPY --from=build /wheels /wheels
# Results belong to the user who starts the container, so the home directory serves every user.
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[bench]" && useradd --create-home --uid 1000 fairbench && chmod 1777 /home/fairbench
ENV HOME=/home/fairbench
USER 1000
WORKDIR /home/fairbench
ENTRYPOINT ["fairbench"]
CMD ["run", "mini", "--output-dir", "results/mini"]
