#!/bin/sh
# Builds both images on the bases of the Dockerfile. If these cannot be found or pulled, it uses bases from
# docker/base.sh, with packages that pip downloads on this machine.
set -eu
cd "$(dirname "$0")/.."
export DOCKER_BUILDKIT=1
python=${PYTHON:-python3}
ours=pybatsched-base

has() {
  docker image inspect "$1" > /dev/null 2>&1
}

default() {
  sed -n "s/^ARG $1=//p" docker/Dockerfile
}

rm -rf build/docker-wheels
set --
for base in "$(default BASE)" "$(default BUILD_BASE)"; do
  has "$base" || docker pull --quiet "$base" || set -- --build-arg "BASE=$ours" --build-arg "BUILD_BASE=$ours:build"
done
if [ $# != 0 ]; then
  echo "the base images cannot be pulled: using Debian packages instead"
  has "$ours" && has "$ours:build" || docker/base.sh "$ours"
  version=$(docker run --rm "$ours" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  needed=$("$python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"])')
  # setuptools is needed to build pybatsched.
  "$python" -m pip --quiet download --dest build/docker-wheels --constraint constraints.txt --only-binary :all: \
    --python-version "$version" setuptools $needed
  set -- "$@" --build-arg PIP_NO_INDEX=1 --build-arg PIP_FIND_LINKS=build/docker-wheels
fi
docker build "$@" --file docker/Dockerfile --target scheduler --tag pybatsched .
docker build "$@" --file docker/Dockerfile --target batsim --tag pybatsched-batsim .
