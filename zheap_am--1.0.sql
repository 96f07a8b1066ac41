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
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION zheap_page_items(regclass, bigint) IS
  'line pointers and tuple headers of a page of a zheap table';

CREATE FUNCTION zheap_page_flags(rel regclass, block bigint)
RETURNS text[]
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION zheap_page_flags(regclass, bigint) IS
  'what is marked of a page of a zheap table as a whole';

CREATE FUNCTION zheap_page_slots(rel regclass, block bigint,
  OUT id smallint, OUT fxid xid8, OUT urp text, OUT ambiguous boolean,
  OUT status text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION zheap_page_slots(regclass, bigint) IS
  'transaction slots of a page of a zheap table';

CREATE FUNCTION zheap_undo_records(rel regclass, block bigint, slot integer,
  OUT urp text, OUT kind text, OUT flags text[], OUT lp smallint,
  OUT writer xid8, OUT cid bigint, OUT prev_writer xid8, OUT bytes integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
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

CREATE FUNCTION pg_stat_get_zheap_undo_logs(
  OUT log integer, OUT persistence text, OUT state text, OUT pid integer,
  OUT head text, OUT tail text, OUT used_blocks bigint,
  OUT retained_bytes bigint, OUT bytes_written bigint, OUT records bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_stat_zheap_undo AS
  SELECT * FROM pg_stat_get_zheap_undo_logs();
COMMENT ON VIEW pg_stat_zheap_undo IS
  'one row per undo log; what was written since the server started';

CREATE FUNCTION pg_stat_get_zheap_undo_totals(
  OUT records bigint, OUT bytes_written bigint, OUT bytes_discarded bigint,
  OUT rollbacks_foreground bigint, OUT rollbacks_background bigint,
  OUT pages_rolled_back_foreground bigint,
  OUT pages_rolled_back_background bigint,
  OUT pages_rolled_back_by_visitors bigint,
  OUT discard_passes bigint, OUT last_discard_pass timestamptz,
  OUT horizon xid8, OUT kept_by text[], OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_stat_zheap_undo_totals AS
  SELECT * FROM pg_stat_get_zheap_undo_totals();
COMMENT ON VIEW pg_stat_zheap_undo_totals IS
  'undo written, discarded and rolled back in all logs, and what the last discard pass left undo for';

CREATE FUNCTION pg_zheap_undo_size()
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION pg_zheap_undo_size() IS
  'bytes of undo that cannot be discarded yet, in whole pages';

CREATE FUNCTION pg_stat_get_zheap_undo_holders(
  OUT kind text, OUT pid integer, OUT name text, OUT oldest_xid xid8,
  OUT age bigint, OUT bytes bigint, OUT held_bytes bigint, OUT writer boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_zheap_undo_holders AS
  SELECT h.kind, h.pid, h.name, h.oldest_xid, h.age, a.datname, a.usename,
    a.application_name, a.backend_type, a.state, a.xact_start, a.query_id,
    h.bytes, h.held_bytes
  FROM pg_stat_get_zheap_undo_holders() h
    LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
  ORDER BY h.bytes DESC, h.held_bytes DESC, h.oldest_xid, h.writer DESC;
COMMENT ON VIEW pg_stat_zheap_undo_holders IS
  'what keeps undo from being discarded, and how much goes when it ends';

CREATE FUNCTION pg_stat_get_zheap_xacts(
  OUT pid integer, OUT xid xid8, OUT undo_bytes bigint,
  OUT undo_records bigint, OUT tables integer, OUT subxacts integer,
  OUT subxacts_overflowed boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_zheap_xacts AS
  SELECT x.pid, a.datname, a.usename, a.application_name, a.state, x.xid,
    a.xact_start, x.undo_bytes, x.undo_records, x.tables, x.subxacts,
    x.subxacts_overflowed, a.query_id
  FROM pg_stat_get_zheap_xacts() x
    LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
  ORDER BY x.undo_bytes DESC;
COMMENT ON VIEW pg_stat_zheap_xacts IS
  'running transactions that have written undo, and how much';

CREATE FUNCTION pg_stat_get_zheap_rollbacks(
  OUT pid integer, OUT datid oid, OUT xid xid8, OUT phase text, OUT relid oid,
  OUT undo_bytes_total bigint, OUT undo_bytes_done bigint,
  OUT table_pages bigint, OUT failed_attempts integer, OUT last_error text,
  OUT last_error_time timestamptz, OUT started timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_progress_zheap_rollback AS
  SELECT r.pid, r.datid, d.datname, r.xid, r.phase, r.relid,
    r.undo_bytes_total, r.undo_bytes_done, r.table_pages, r.failed_attempts,
    r.last_error, r.last_error_time, r.started
  FROM pg_stat_get_zheap_rollbacks() r
    LEFT JOIN pg_catalog.pg_database d ON d.oid = r.datid
  ORDER BY r.xid;
COMMENT ON VIEW pg_stat_progress_zheap_rollback IS
  'aborted transactions that are not rolled back yet, and how far they are';

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

-- looking at tables

CREATE FUNCTION pg_stat_get_zheap_table(relid oid,
  OUT n_upd_in_place bigint, OUT n_upd_new_keys bigint,
  OUT n_upd_moved_indexed bigint, OUT n_upd_moved_snapshots bigint,
  OUT n_upd_moved_no_room bigint, OUT n_upd_moved_trigger bigint,
  OUT xact_slots_shared bigint, OUT rows_spilled bigint,
  OUT pages_compacted bigint, OUT old_versions_read bigint,
  OUT longest_walk bigint)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_zheap_tables AS
  SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, s.*
  FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_am a ON a.oid = c.relam AND a.amname = 'zheap'
    LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace,
    pg_stat_get_zheap_table(c.oid) s
  WHERE c.relkind IN ('r', 't', 'm');
COMMENT ON VIEW pg_stat_zheap_tables IS
  'what zheap tables of this database were through since the counters were reset';

CREATE FUNCTION pg_zheap_reset_stats()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pg_zheap_reset_stats() IS
  'sets all counters of zheap_am to zero';

-- they show other people's data, or read much of it

REVOKE EXECUTE ON FUNCTION zheap_page_items(regclass, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION zheap_page_flags(regclass, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION zheap_page_slots(regclass, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION zheap_undo_records(regclass, bigint, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION zheap_check(regclass, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_undo_size() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_undo_file_size() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_drain_undo(interval) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_stat_get_zheap_undo_logs() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_stat_get_zheap_undo_totals() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_stat_get_zheap_undo_holders() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_stat_get_zheap_xacts() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_stat_get_zheap_rollbacks() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_zheap_reset_stats() FROM PUBLIC;

GRANT EXECUTE ON FUNCTION zheap_page_items(regclass, bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION zheap_page_flags(regclass, bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION zheap_page_slots(regclass, bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION zheap_undo_records(regclass, bigint, integer) TO pg_monitor;
GRANT EXECUTE ON FUNCTION zheap_check(regclass, boolean) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_undo_size() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_undo_file_size() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_zheap_drain_undo(interval) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_stat_get_zheap_undo_logs() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_stat_get_zheap_undo_totals() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_stat_get_zheap_undo_holders() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_stat_get_zheap_xacts() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_stat_get_zheap_rollbacks() TO pg_monitor;
GRANT SELECT ON pg_stat_zheap_undo TO pg_monitor;
GRANT SELECT ON pg_stat_zheap_undo_totals TO pg_monitor;
GRANT SELECT ON pg_stat_zheap_undo_holders TO pg_monitor;
GRANT SELECT ON pg_stat_zheap_xacts TO pg_monitor;
GRANT SELECT ON pg_stat_progress_zheap_rollback TO pg_monitor;
-- as pg_stat_all_tables
GRANT SELECT ON pg_stat_zheap_tables TO PUBLIC;
