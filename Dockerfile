# The official image of PostgreSQL with zheap_am:
#   docker build -t zheap_am --build-arg PG_MAJOR=17 .
#   docker run -e POSTGRES_PASSWORD=... -p 5432:5432 zheap_am
# or compose.yml.  A new database has the extension, and heap as its default.
ARG PG_MAJOR=17

FROM postgres:${PG_MAJOR}-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
		build-essential "postgresql-server-dev-$PG_MAJOR" \
	&& rm -rf /var/lib/apt/lists/*
COPY . /zheap_am
RUN make -C /zheap_am -j"$(nproc)" with_llvm=no \
		PG_CONFIG="/usr/lib/postgresql/$PG_MAJOR/bin/pg_config" all \
	&& make -C /zheap_am with_llvm=no DESTDIR=/installed \
		PG_CONFIG="/usr/lib/postgresql/$PG_MAJOR/bin/pg_config" install

FROM postgres:${PG_MAJOR}-bookworm
COPY --from=build /installed/ /
RUN echo "shared_preload_libraries = 'zheap_am'" \
		>>/usr/share/postgresql/postgresql.conf.sample \
	&& echo 'CREATE EXTENSION zheap_am;' \
		>/docker-entrypoint-initdb.d/zheap_am.sql
