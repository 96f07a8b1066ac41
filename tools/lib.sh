# shellcheck shell=bash
# tools/lib.sh: what check, demo, pgbench-soak and .ci/run share.
#
# Everything happens in a throw-away work folder: a copy of the sources, a
# copy of the server (PostgreSQL finds its files relative to its binaries, so
# a copied tree works and nothing is written into the system's), and clusters.
# Servers refuse to run as root, so root hands the folder to an ordinary user.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C PGUSER=postgres PGPORT=5432 PGCONNECT_TIMEOUT=30
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL PGHOST PGDATABASE PGOPTIONS \
	PGDATA PGSERVICE PGPASSFILE LANG LANGUAGE
started=()						# data directories of running servers

say() { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }
jobs_count() { nproc 2>/dev/null || echo 2; }

# Run a command as the ordinary user.
as_user() {
	if is_root; then
		runuser -u "$run_user" -- env HOME="$WORK" "$@" </dev/null
	else
		env HOME="$WORK" "$@" </dev/null
	fi
}

# ensure_packages COMMAND... -- PACKAGE...: if one of the test commands fails,
# install the packages (root on Debian), or say what to install.
ensure_packages() {
	local tests=() missing=0 t
	while [ "$1" != -- ]; do tests+=("$1"); shift; done
	shift
	for t in "${tests[@]}"; do bash -c "$t" >/dev/null 2>&1 || missing=1; done
	[ $missing = 1 ] || return 0
	if ! is_root || ! command -v apt-get >/dev/null; then
		die "missing tools; on Debian, run as root: apt-get install $*"
	fi
	say "installing packages: $*"
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get update -qq || true
	  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
	} </dev/null >"${TMPDIR:-/tmp}/zheap-apt.$$" 2>&1 || {
		tail -n 20 "${TMPDIR:-/tmp}/zheap-apt.$$"
		die "could not install: $*"
	}
	rm -f "${TMPDIR:-/tmp}/zheap-apt.$$"
	for t in "${tests[@]}"; do
		bash -c "$t" >/dev/null 2>&1 || die "still failing after the installation: $t"
	done
}

MAJORS="18 17 16 15"			# supported, the newest first

# Set PG_CONFIG to a usable server of a supported version: the one that it
# names, or the newest of this machine.
find_server() {
	local candidate=${PG_CONFIG:-} major packages=() there=true
	if [ -z "$candidate" ]; then
		candidate=$(newest_server)
		if [ -z "$candidate" ]; then
			read -ra packages <<<"$(packaged_server)"
			there="ls /usr/include/postgresql/${packages[0]#*-}/server/postgres.h"
		fi
		ensure_packages "$there" "command -v cc" \
			"command -v make" "command -v prove" "perl -MIPC::Run -e 1" \
			-- "${packages[@]}" build-essential libipc-run-perl
		[ -n "$candidate" ] || candidate=$(newest_server)
	fi
	PG_CONFIG=$(command -v "$candidate") || die "no such program: $candidate"
	PG_CONFIG=$(cd "$(dirname "$PG_CONFIG")" && pwd)/$(basename "$PG_CONFIG")
	major=$(major_of "$PG_CONFIG")
	[[ " $MAJORS " == *" $major "* ]] || die "$PG_CONFIG is of PostgreSQL \
${major:-?}; supported are: $MAJORS"
	usable_server "$PG_CONFIG" || die "$PG_CONFIG is not a PostgreSQL server \
with development files and regression tools; on Debian, install \
postgresql-$major and postgresql-server-dev-$major, elsewhere postgresql$major-devel"
}

major_of() { "$1" --version 2>/dev/null | sed -nE 's/^PostgreSQL ([0-9]+).*/\1/p'; }

usable_server() {
	[ -n "$1" ] && [[ " $MAJORS " == *" $(major_of "$1") "* ]] &&
		[ -f "$("$1" --pgxs)" ] && [ -x "$("$1" --bindir)/postgres" ] &&
		[ -f "$("$1" --includedir-server)/postgres.h" ]
}

# Where Debian's packages and those of the PostgreSQL project put servers.
newest_server() {
	local major c
	for major in $MAJORS; do
		for c in "$(command -v pg_config || true)" \
			/usr/lib/postgresql/"$major"/bin/pg_config \
			/usr/pgsql-"$major"/bin/pg_config; do
			if [ "$(major_of "$c")" = "$major" ] && usable_server "$c"; then
				echo "$c"
				return 0
			fi
		done
	done
}

# The packages of the newest server that apt-get can install.
packaged_server() {
	local major
	for major in $MAJORS; do
		if apt-cache show "postgresql-server-dev-$major" >/dev/null 2>&1; then
			echo "postgresql-$major postgresql-server-dev-$major"
			return 0
		fi
	done
	echo "postgresql-15 postgresql-server-dev-15"
}

# Create the work folder and arrange for its end.
make_work() {
	local tmp=${TMPDIR:-/tmp}
	run_user=$(id -un)
	if is_root; then
		run_user=postgres
		getent passwd postgres >/dev/null || run_user=nobody
	fi
	# socket names are limited to about 100 bytes
	[ ${#tmp} -le 50 ] || tmp=/tmp
	WORK=$(mktemp -d "$tmp/zheap.XXXXXX")
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	chmod 755 "$WORK"
	is_root && chown "$run_user" "$WORK"
	cd "$WORK" || die "cannot enter $WORK"
	if ! as_user test -w "$WORK"; then
		die "$run_user cannot write below $tmp; set TMPDIR"
	fi
	mkdir "$WORK/s"
	is_root && chown "$run_user" "$WORK/s"
	export PGHOST=$WORK/s
}

cleanup() {
	local status=$? d
	trap - EXIT INT TERM
	set +e
	for d in "${started[@]}"; do
		as_user "$BIN/pg_ctl" -D "$d" -m immediate -w stop >/dev/null 2>&1
	done
	if [ -n "${KEEP:-}" ]; then
		say "kept: $WORK"
	else
		cd / && rm -rf "$WORK"
	fi
	exit $status
}

# Copy server and sources into the work folder, build and install there.
# Sets BIN and PG_CONFIG to the copy's, SRC to the sources.  ZHEAP_PREPARED names a work folder
# that was prepared already (.ci/run).
prepare() {						# prepare FOLDER
	local p pc=$PG_CONFIG tree src dir=$1
	if [ -n "${ZHEAP_PREPARED:-}" ]; then
		tree=$ZHEAP_PREPARED/tree
		src=$ZHEAP_PREPARED/src
		PG_CONFIG=$tree$("$pc" --bindir)/pg_config
	else
		tree=$dir/tree
		src=$dir/src
		say "copying the server: $("$pc" --version)"
		for p in bindir pkglibdir sharedir includedir-server; do
			copy_tree "$("$pc" --$p)" "$tree"
		done
		mkdir -p "$tree$("$pc" --libdir)"
		cp -a "$("$pc" --libdir)"/libpq.so* "$tree$("$pc" --libdir)"/ \
			2>/dev/null || true
		PG_CONFIG=$tree$("$pc" --bindir)/pg_config
		mkdir "$src"
		tar -C "$REPO" --exclude=./.git --exclude='*.o' --exclude='*.so' \
			--exclude='*.bc' --exclude=tmp_check --exclude=./results \
			--exclude=__pycache__ --exclude=./tools/zheap-waldump \
			-cf - . | tar -C "$src" -xf -
		write_initdb "$tree$("$pc" --bindir)"
		if is_root; then chown -R "$run_user" "$tree" "$src"; fi
	fi
	LD_LIBRARY_PATH=$tree$("$pc" --libdir)
	export LD_LIBRARY_PATH
	BIN=$("$PG_CONFIG" --bindir)
	# shellcheck disable=SC2034
	SRC=$src
	[ -z "${ZHEAP_PREPARED:-}" ] || return 0
	say "building zheap_am"
	build_module "$src" || die "the build failed"
}

# Let the copied server's initdb keep the first cluster of each kind and copy it
# for who asks for another one, which takes a tenth of the time.  Each has the
# same system identifier then.
write_initdb() {				# write_initdb BINDIR
	mv "$1/initdb" "$1/initdb.real"
	cat >"$1/initdb" <<-'EOF'
	#!/usr/bin/env bash
	set -e
	data='' kind=$(env | grep -E '^(LC_|LANG|PG(CLIENTENCODING|TZ|USER)|TZ)' | sort || true)
	all=("$@")
	while [ $# -gt 0 ]; do
	    case $1 in
	    -D | --pgdata) data=$2; shift ;;
	    --pgdata=*) data=${1#*=} ;;
	    -[VXSWs?]* | --version | --waldir* | --sync-only | --pw* | --show | --help) data=; break ;;
	    *) kind="$kind|$1" ;;
	    esac
	    shift
	done
	if [ -z "$data" ] || [ -n "$(ls -A "$data" 2>/dev/null)" ]; then
	    exec "$0.real" "${all[@]}"
	fi
	kept=$0.$(md5sum <<<"$kind" | cut -c1-32)
	exec 9>"$kept.lock"
	flock 9
	if [ ! -d "$kept" ]; then
	    rm -rf "$kept.new"
	    "$0.real" "${all[@]}" -D "$kept.new" >"$kept.out" 9>&-
	    mv "$kept.new" "$kept"
	fi
	exec 9>&-
	mkdir -p "$data"
	cp -a --reflink=auto "$kept/." "$data"
	cat "$kept.out"
	EOF
	chmod +x "$1/initdb"
}

copy_tree() {					# copy_tree FOLDER ROOT: to ROOT/FOLDER
	[ ! -d "$2$1" ] || return 0
	mkdir -p "$2$1"
	tar -C "$1" --exclude=./bitcode -cf - . | tar -C "$2$1" -xf -
}

build_module() {				# build_module FOLDER: make and install it
	local log
	log=$WORK/build.$(basename "$1").log
	if ! as_user make -C "$1" -s -j"$(jobs_count)" with_llvm=no \
		PG_CONFIG="$PG_CONFIG" all >"$log" 2>&1 ||
		! as_user make -C "$1" -s with_llvm=no \
		PG_CONFIG="$PG_CONFIG" install >>"$log" 2>&1; then
		tail -n 40 "$log"
		return 1
	fi
}

# start_cluster NAME [SETTING...]: initdb and start; PGHOST finds it
start_cluster() {
	local d=$WORK/$1
	shift
	as_user "$BIN/initdb" -D "$d" -U postgres -A trust -E UTF8 --locale=C -k -N \
		>"$d.initdb.log" 2>&1 || { tail "$d.initdb.log"; die "initdb failed"; }
	{	echo "listen_addresses = ''"
		echo "unix_socket_directories = '$WORK/s'"
		echo "log_line_prefix = '%m [%p] %q%a '"
		printf '%s\n' "$@"
	} >>"$d/postgresql.conf"
	start_server "$d"
}

start_server() {
	started+=("$1")
	as_user "$BIN/pg_ctl" -D "$1" -l "$1.log" -w -t 120 start >"$1.ctl.log" 2>&1 || {
		tail -n 20 "$1.ctl.log" "$1.log"
		die "the server did not start"
	}
}

stop_server() {					# stop_server DATADIR [MODE]
	as_user "$BIN/pg_ctl" -D "$1" -m "${2:-fast}" -w -t 120 stop >/dev/null
}

# kill -9 of a whole server.  Wait until its postmaster has been reaped, else
# its pid still seems to live; where nobody reaps, take its lock file away.
kill_server() {					# kill_server DATADIR
	local pid
	pid=$(head -n 1 "$1/postmaster.pid")
	# shellcheck disable=SC2046
	kill -9 "$pid" $(children_of "$pid") 2>/dev/null || true
	for _ in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	! grep -q '^State:.*Z' "/proc/$pid/status" || rm -f "$1/postmaster.pid"
}

children_of() {					# children_of PID
	grep -lsE "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | cut -d/ -f3
}

sql() {							# sql DATABASE STATEMENT: unaligned, tuples only
	as_user "$BIN/psql" -XAtq -v ON_ERROR_STOP=1 -d "$1" -c "$2"
}

# Print every btree index of a database that amcheck finds fault with.
amcheck_all() {
	sql "$1" "SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS amcheck" 2>&1
	sql "$1" "
		DO \$\$
		DECLARE i regclass;
		BEGIN
			FOR i IN
				SELECT x.indexrelid FROM pg_index x
				JOIN pg_class c ON c.oid = x.indexrelid
				JOIN pg_class t ON t.oid = x.indrelid
				JOIN pg_am a ON a.oid = c.relam AND a.amname = 'btree'
				JOIN pg_am m ON m.oid = t.relam AND m.amname <> 'heap'
				WHERE c.relkind = 'i' AND c.relpersistence <> 't'
				  AND x.indisvalid AND x.indisready
			LOOP
				PERFORM bt_index_check(i, true);
			END LOOP;
		END \$\$" 2>&1
}

# What a server log must not hold.
log_faults() {
	grep -nE 'TRAP:|PANIC:|runtime error:|AddressSanitizer|FATAL:.*(zheap|undo)|terminated by signal|WARNING:.*(leak|stuck)|could not (write|open|read) block|ERRCODE_DATA_CORRUPTED|XX00[12]' "$1" || true
}

# Results, one line a test; the counts go to $ZHEAP_COUNTS for .ci/run.
passed=0 failed=0 failures=()
pass() { passed=$((passed + 1)); say "ok      $1${2:+  ($2)}"; }
fail() { failed=$((failed + 1)); failures+=("$1"); say "FAILED  $1${2:+  ($2)}"; }
summary() {						# summary NAME: print, and return the verdict
	say "$1: passed $passed, failed $failed${failures[*]:+:$(printf ' %s;' "${failures[@]}")}"
	[ -z "${ZHEAP_COUNTS:-}" ] || echo "$passed $failed" >>"$ZHEAP_COUNTS"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
