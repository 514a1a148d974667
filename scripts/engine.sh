# Shared by what builds images: the engine, docker or podman, and the base image. podman is installed if there is neither.
. scripts/common.sh
shopt -s inherit_errexit # what fails in base_of ends its caller

public=docker.io/library/debian:trixie-slim
case $(uname -m) in aarch64) host=arm64 ;; *) host=amd64 ;; esac

if docker info >/dev/null 2>&1; then
  engine=docker build=(docker build)
else
  command -v podman >/dev/null || install_packages podman runc iptables aardvark-dns >&2
  # docker's format has the health check. The isolation needs none of the rights that a container needs.
  engine=podman build=(podman build --format docker --isolation chroot)
fi

# Prints the name of the base for this processor: the public one, or where no registry answers one made of Debian's packages.
base_of() {
  local own=localhost/debian-trixie-slim:$1 excluded licences=/usr/share/doc/*/copyright failure mirror folder
  if failure=$($engine pull --quiet --platform "linux/$1" $public 2>&1 >/dev/null); then echo $public; return; fi
  if ! $engine image inspect "$own" >/dev/null 2>&1; then
    echo "image: no $public: $(tail -1 <<<"$failure")" >&2
    echo "image: making a base from Debian's packages" >&2
    # arch-test says whether this machine runs programs of the other processor.
    { command -v mmdebstrap && command -v arch-test; } >/dev/null || install_packages mmdebstrap arch-test >&2
    mirror=$(python3 -c "from examples.debian import debian_mirror; print(debian_mirror())")
    folder=$(mktemp -d)
    excluded=("--dpkgopt=path-exclude=/usr/share/"{doc,info,locale,man}"/*")
    mmdebstrap --quiet --variant=minbase --architectures="$1" --keyring=/usr/share/keyrings \
      "${excluded[@]}" "--dpkgopt=path-include=$licences" trixie "$folder/base.tar" "$mirror" >&2
    printf 'FROM scratch\nADD base.tar /\n' >"$folder/Dockerfile"
    "${build[@]}" --platform "linux/$1" --tag "$own" "$folder" >/dev/null
    rm -r "$folder"
  fi
  echo "$own"
}
