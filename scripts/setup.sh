#!/usr/bin/env bash
# Installs what the build needs: Debian packages, the Python tools in .venv and DUCC's source in .deps.
# A second run finds everything in place and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ make git ca-certificates python3 python3-venv ccache
  libeigen3-dev libhwy-dev libcli11-dev libfmt-dev nlohmann-json3-dev libgtest-dev libbenchmark-dev)
ducc=ducc0-0.42.0

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing Debian packages: ${missing[*]}"
  as_root=; [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# install_venv FOLDER REQUIREMENTS: a virtual environment that is rebuilt when its requirements change.
install_venv() {
  local stamp="$1/.installed-$(sha256sum <"$2" | cut -c1-16)"
  [ -e "$stamp" ] && return
  echo "setup: installing Python packages of $2 into $1"
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
  touch "$stamp"
}
install_venv .venv scripts/requirements.txt
if [ "${1:-}" = bench ]; then install_venv .venv-bench scripts/requirements-bench.txt; fi

if [ ! -d ".deps/$ducc" ]; then
  echo "setup: fetching $ducc"
  mkdir -p .deps/download
  .venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary ducc0 \
    -d .deps/download "${ducc/-/==}"
  echo "4e11c59b53a43355b053aebb2a62ee16eebeed026575f7d216cf09d437ce52ef  .deps/download/$ducc.tar.gz" | sha256sum --check --quiet
  tar -xzf ".deps/download/$ducc.tar.gz" -C .deps/download
  mv ".deps/download/$ducc" ".deps/$ducc"
  rm -r .deps/download
fi
