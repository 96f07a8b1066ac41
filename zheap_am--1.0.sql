/* zheap_am--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION zheap_am" to load this file. \quit

CREATE FUNCTION zheap_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE ACCESS METHOD zheap TYPE TABLE HANDLER zheap_handler;
COMMENT ON ACCESS METHOD zheap IS
  'tables updated in place, old row versions in undo logs';

-- looking at pages

CREATE FUNCTION zheap_page_items(rel regclass, block bigint,
  OUT lp smallint, OUT lp_off smallint, OUT lp_len smallint, OUT state text,
  OUT xact_slot smallint, OUT natts smallint, OUT flags text[])
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION zheap_page_items(regclass, bigint) IS
  'line pointers and tuple headers of a page of a zheap table';

CREATE FUNCTION zheap_page_slots(rel regclass, block bigint,
  OUT id smallint, OUT fxid xid8, OUT urp text, OUT ambiguous boolean,
  OUT status text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION zheap_page_slots(regclass, bigint) IS
  'transaction slots of a page of a zheap table';

CREATE FUNCTION zheap_undo_records(rel regclass, block bigint, slot integer,
  OUT urp text, OUT kind text, OUT flags text[], OUT lp smallint,
  OUT writer xid8, OUT cid bigint, OUT prev_writer xid8, OUT bytes integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION zheap_undo_records(regclass, bigint, integer) IS
  'undo records of a transaction slot of a page, newest first';

CREATE FUNCTION zheap_check(rel regclass, indexes boolean DEFAULT true,
  OUT block bigint, OUT "offset" smallint, OUT what text, OUT expected text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION zheap_check(regclass, boolean) IS
  'what is wrong with a zheap table, its undo, visibility map and indexes; no row: nothing was found';

-- looking at undo

CREATE FUNCTION pg_zheap_undo_logs(
  OUT log integer, OUT persistence text, OUT state text, OUT pid integer,
  OUT head text, OUT tail text, OUT used_blocks bigint,
  OUT retained_bytes bigint, OUT bytes_written bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_stat_zheap_undo AS
  SELECT * FROM pg_zheap_undo_logs();

CREATE FUNCTION pg_zheap_undo_size()
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION pg_zheap_undo_size() IS
  'bytes of undo that cannot be discarded yet, in whole pages';

CREATE FUNCTION pg_zheap_undo_holders(
  OUT kind text, OUT pid integer, OUT name text, OUT oldest_xid xid8,
  OUT age bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_zheap_undo_holders AS
  SELECT h.*, a.datname, a.usename, a.application_name, a.backend_type,
    a.state, a.xact_start, a.query_id
  FROM pg_zheap_undo_holders() h
    LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
  ORDER BY h.oldest_xid;
COMMENT ON VIEW pg_stat_zheap_undo_holders IS
  'what keeps undo from being discarded, the oldest first';

CREATE FUNCTION pg_zheap_drain_undo(timeout interval DEFAULT '1 min')
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pg_zheap_drain_undo(interval) IS
  'waits until all aborted transactions are rolled back; false if the time was too short';

CREATE FUNCTION pg_zheap_undo_file_size()
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION pg_zheap_undo_file_size() IS
  'bytes of the files of all undo logs';

CREATE FUNCTION zheap_horizons(OUT u xid8, OUT h xid8)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION zheap_horizons() IS
  'transactions before u are visible to all; undo of those before h may be gone';

-- they show other people's data, or read much of it

REVOKE EXECUTE ON FUNCTION zheap_page_items(regclass, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION zheap_page_slots(regclass, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION zheap_undo_records(regclass, bigint, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION zheap_check(regclass, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_undo_logs() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_undo_size() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_undo_file_size() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_undo_holders() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_drain_undo(interval) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION zheap_page_items(regclass, bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION zheap_page_slots(regclass, bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION zheap_undo_records(regclass, bigint, integer) TO pg_monitor;
GRANT EXECUTE ON FUNCTION zheap_check(regclass, boolean) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_undo_logs() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_undo_size() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_undo_file_size() TO pg_monitor;
GRANT SELECT ON pg_stat_zheap_undo TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_undo_holders() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_drain_undo(interval) TO pg_monitor;
GRANT SELECT ON pg_stat_zheap_undo_holders TO pg_monitor;
