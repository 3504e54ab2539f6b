#!/usr/bin/env bash
# Build the container image from a wheel, and keep it as a file.
#   image.sh WHEEL INTO [BASE]     INTO/outlive-VERSION-image.tar.gz; BASE is an image (python:3.13-slim)
# Asks the Docker daemon of DOCKER_HOST. Packages are fetched by pip beforehand, for the Python of the base, so that nothing is
# downloaded inside. OUTLIVE_IMAGE_NETWORK=none keeps the build from the network.
set -euo pipefail

[ $# -ge 2 ] || {
    echo "image.sh WHEEL INTO [BASE]" >&2
    exit 64
}
wheel=$1 into=$2 base=${3:-python:3.13-slim}
here=$(cd "$(dirname "$0")" && pwd)
python=${VENV:-$here/../.venv}/bin/python
version=$(basename "$wheel" | cut -d - -f 2)
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
network=(--network "${OUTLIVE_IMAGE_NETWORK:-default}")

minor=$(docker run --rm --network none --entrypoint python3 "$base" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
cp "$wheel" "$here/../requirements/runtime.txt" "$context/"
# 2.28: Debian 10, and every distribution since. pip takes the newest of what it may.
"$python" -m pip download -qq --disable-pip-version-check --only-binary :all: --python-version "$minor" \
    --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_17_$(uname -m)" --platform "manylinux2014_$(uname -m)" \
    --require-hashes -r "$context/runtime.txt" -d "$context"
docker build --quiet "${network[@]}" --build-arg BASE="$base" --build-arg PIP_NO_INDEX=1 \
    -f "$here/image/Dockerfile" -t "outlive:$version" -t outlive:latest "$context" >/dev/null
mkdir -p "$into"
docker save "outlive:$version" | gzip -n >"$into/outlive-$version-image.tar.gz"
echo "$into/outlive-$version-image.tar.gz"
