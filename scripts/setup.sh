#!/usr/bin/env bash
# setup.sh [core|fuzz]: installs what the build needs: Debian packages, the Python tools in .venv and DUCC's source in .deps.
# "core" leaves out PyTorch and what else only training needs; "fuzz" is core with clang and its libFuzzer.
# A second run finds everything in place and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ make git ca-certificates pkg-config python3 python3-dev python3-venv ccache
  libeigen3-dev libhwy-dev libcli11-dev libfmt-dev nlohmann-json3-dev libpng-dev libgtest-dev libbenchmark-dev)
requirements=(scripts/requirements.txt)
if [ "${1:-}" = fuzz ]; then
  packages+=(clang libclang-rt-dev)
elif [ "${1:-}" != core ]; then
  packages+=(libyaml-cpp-dev zlib1g-dev)
  requirements+=(scripts/requirements-torch.txt)
fi
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

# One stamp for each requirements file: a changed one is installed again.
[ -d .venv ] || python3 -m venv .venv
for file in "${requirements[@]}"; do
  stamp=".venv/.installed-$(sha256sum <"$file" | cut -c1-16)"
  if [ ! -e "$stamp" ]; then
    echo "setup: installing Python packages of $file into .venv"
    .venv/bin/pip install --quiet --disable-pip-version-check -r "$file"
    touch "$stamp"
  fi
done

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
