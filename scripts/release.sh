#!/usr/bin/env bash
# Make everything that a release consists of, in dist/, and say what a person would publish where. Nothing is uploaded.
#   release.sh [--namespace io.github.NAME] [--into FOLDER] [--base IMAGE]
# --namespace: whose server it is in the MCP registry. --base: the image that the container image is made from.
# The tools (zig, twine, cyclonedx-bom) are installed into .release by their locked hashes (90 MB to fetch, 500 MB of disk).
set -euo pipefail
cd "$(dirname "$0")/.."
into=dist namespace=io.github.NAME base=python:3.13-slim
while [ $# -gt 0 ]; do
    case "$1 ${2:+value}" in
    "--namespace value") namespace=$2 ;;
    "--into value") into=$2 ;;
    "--base value") base=$2 ;;
    *)
        sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
        exit 64
        ;;
    esac
    shift 2
done
python=${VENV:-.venv}/bin/python
tools=.release
wanted=requirements/release.txt
left_out=()

step() { printf 'release: %s\n' "$1" >&2; }

[ -x "$python" ] || {
    echo "release: $python is missing: make setup" >&2
    exit 1
}
if [ -e "$into" ] && [ -n "$(ls -A "$into")" ]; then
    echo "release: $into is not empty; what lies there would be published, too" >&2
    exit 1
fi
if ! cmp -s "$wanted" "$tools/.installed"; then
    step "installing the tools"
    rm -rf "$tools"
    "$python" -m venv "$tools"
    "$tools/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r "$wanted"
    cp "$wanted" "$tools/.installed"
fi
mkdir -p "$into"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step "sdist and wheels"
zig=$("$tools/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
"$python" -m scripts.wheels --into "$into" --zig "$zig" >/dev/null
# What is not under a file of its own in PyPI is not checked there; this is what PyPI itself looks at.
"$tools/bin/python" -m twine check --strict "$into"/*.whl "$into"/*.tar.gz >/dev/null

step "an installation without a network, from wheels alone"
wheel=$(ls "$into"/outlive-*_"$(uname -m)".whl)
"$python" -m pip download -qq --disable-pip-version-check --only-binary :all: --require-hashes \
    -r requirements/runtime.txt -d "$work/wheels"
cp "$wheel" "$work/wheels"
"$python" -m venv "$work/clean"
"$work/clean/bin/python" -m pip install -qq --disable-pip-version-check --no-index --find-links "$work/wheels" outlive
mkdir "$work/home"
try() { (cd / && env -i HOME="$work/home" PATH="/usr/bin:/bin" "$work/clean/bin/outlive" "$@"); }
said=$(try run -- echo works) || true
# What that has started ends here: the server, then the keeper.
kill "$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$work/home/.local/state/outlive/server.json")" || true
try keeper stop --kill >/dev/null
[ "$said" = works ] || {
    echo "release: the installed program does not work: $said" >&2
    exit 1
}

step "the list of what it stands on"
version=$("$work/clean/bin/python" -c 'import outlive; print(outlive.__version__)')
sed "s/^dynamic = .*/version = \"$version\"/" pyproject.toml >"$work/pyproject.toml"
"$work/clean/bin/python" -m pip uninstall --quiet --yes --disable-pip-version-check pip setuptools 2>/dev/null || true
"$tools/bin/cyclonedx-py" environment --pyproject "$work/pyproject.toml" --output-reproducible --of JSON \
    -o "$into/outlive-$version.cdx.json" "$work/clean/bin/python" 2>/dev/null

step "the bundle for one-click MCP hosts, and server.json"
"$python" -m scripts.bundle --namespace "$namespace" --into "$into" >/dev/null

step "manual pages and completion"
mkdir "$work/share" "$work/share/man" "$work/share/completion"
"$python" -m scripts.manpages "$work/share/man" >/dev/null
for shell in bash zsh fish; do "$work/clean/bin/outlive" completion "$shell" >"$work/share/completion/outlive.$shell"; done
tar -C "$work/share" --sort=name --owner=0 --group=0 --numeric-owner --mode=a=rX,u+w --mtime="@$(git log -1 --format=%ct)" \
    -c man completion | gzip -n >"$into/outlive-$version-man-and-completion.tar.gz"

if docker info >/dev/null 2>&1; then
    step "the container image"
    scripts/image.sh "$wheel" "$into" "$base" >/dev/null
else
    left_out+=("the container image: no Docker daemon answers (DOCKER_HOST says where one does)")
fi

(cd "$into" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
echo "In $into, by SHA256SUMS:"
awk '{ print "  " $2 }' "$into/SHA256SUMS"
for one in "${left_out[@]:-}"; do [ -z "$one" ] || echo "Not made: $one"; done
cat <<WORDS
Nothing was uploaded. What a person would publish, and where:
  PyPI                  twine upload $into/*.whl $into/*.tar.gz
  the release's page    all of $into, and a signature of SHA256SUMS
  the MCP registry      mcp-publisher publish $into/server.json (docs/install.md says what it wants)
WORDS
image=$into/outlive-$version-image.tar.gz
[ ! -e "$image" ] || echo "  a registry of images  docker load <$image, then docker tag and docker push"
