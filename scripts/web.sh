#!/usr/bin/env bash
# Check the types of the page's scripts (needs npm). The page itself needs no build: what lies in the package is what a browser loads.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null || {
    echo "web: npm is missing (Debian: apt-get install npm)" >&2
    exit 1
}
mkdir -p .web
cp -u tests/web/package.json tests/web/package-lock.json tests/web/tsconfig.json .web/
# A lock without addresses holds hashes: whichever registry serves, the bytes are these.
if [ ! -f .web/node_modules/.package-lock.json ] || [ .web/package-lock.json -nt .web/node_modules/.package-lock.json ]; then
    npm ci --prefix .web --ignore-scripts --no-audit --no-fund --loglevel=error
fi
# A copy in which the libraries are their declarations: what is vendored is for browsers, and says nothing of types.
rm -rf .web/page
cp -r src/outlive/frontends/web/assets .web/page
rm -r .web/page/vendor
mkdir .web/page/vendor
cp tests/web/types/*.d.mts .web/page/vendor/
.web/node_modules/.bin/tsc -p .web
