\echo Use "CREATE EXTENSION undo_toy" to load this file. \quit

-- writes n undo records for a block of a relation, kept for keep_for unless that
-- is 0; the last one is returned
CREATE FUNCTION toy_write(rel regclass, n int, payload_size int,
	block int DEFAULT 0, keep_for bigint DEFAULT 0,
	until_u bool DEFAULT false, OUT urp bigint, OUT writer bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- one record as text, NULL if it was discarded
CREATE FUNCTION toy_read(rel regclass, urp bigint, writer bigint,
	block int DEFAULT 0, held bool DEFAULT false) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- the same of one that is kept for a transaction
CREATE FUNCTION toy_read_kept(rel regclass, urp bigint, keep_for bigint,
	until_u bool, block int DEFAULT 0) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- length of a chain, each payload checked; stops at what was discarded
CREATE FUNCTION toy_chain(rel regclass, urp bigint, writer bigint,
	block int DEFAULT 0) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- fails with an error while a rollback is going on
CREATE FUNCTION toy_outer_error(rel regclass, block int) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- which blocks the store had rolled back, and how often
CREATE FUNCTION toy_asked(OUT reloid oid, OUT block int, OUT times int,
	OUT background int) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
CREATE FUNCTION toy_forget_asked() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION toy_undo_logs(OUT persistence text, OUT log int,
	OUT state text, OUT head_block bigint, OUT head_offset int,
	OUT tail bigint, OUT used_blocks bigint, OUT seq bigint,
	OUT pending bigint, OUT owner int) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
CREATE FUNCTION toy_horizons(OUT u bigint, OUT h bigint,
	OUT oldest_unapplied bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
CREATE FUNCTION toy_has_unapplied(dboid oid) RETURNS bool
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- the format of undo pages, on pages of one's own
CREATE FUNCTION toy_format_records() RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
CREATE FUNCTION toy_format_runs() RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
CREATE FUNCTION toy_format_damage(pages int) RETURNS bool
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
