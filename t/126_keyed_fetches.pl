# Indexes whose keys changed in place, asked by C code as others may ask them: with
# SnapshotSelf, SnapshotDirty and SnapshotAny; and what the watch of scans relies
# on, broken on purpose, is an ERROR and no wrong row.  The answers are heap's, but
# with SnapshotAny, where zheap shows of a row the newest version alone.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('fetches', conf => "autovacuum = off\nzheap.update_indexed_in_place = on\n");
my $folder = $node->config_data('--pkglibdir');
plan skip_all => "$folder is not writable" unless -w $folder;

END { unlink "$folder/my_fetches.so" if $folder; }
my $dir = $node->basedir;
put("$dir/my_fetches.c", q{
#include "postgres.h"
#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(fetch_by_index);

/*
 * All rows with a key, as id:key; with a dirty snapshot followed by + if the
 * insertion, by - if the end is in progress.  broken: none, rescan (the index
 * has core's), copy (the scan loses its entries), row (it stands at another).
 */
Datum
fetch_by_index(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessShareLock);
	int32		key = PG_GETARG_INT32(1);
	char	   *kind = text_to_cstring(PG_GETARG_TEXT_PP(2));
	char	   *broken = text_to_cstring(PG_GETARG_TEXT_PP(3));
	Relation	rel = table_open(index->rd_index->indrelid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	SnapshotData dirty;
	Snapshot	snapshot = GetActiveSnapshot();
	ScanKeyData skey;
	IndexScanDesc scan;
	ItemPointer tid;
	StringInfoData result;

	InitDirtySnapshot(dirty);
	if (strcmp(kind, "self") == 0)
		snapshot = SnapshotSelf;
	else if (strcmp(kind, "any") == 0)
		snapshot = SnapshotAny;
	else if (strcmp(kind, "dirty") == 0)
		snapshot = &dirty;
	initStringInfo(&result);
	ScanKeyInit(&skey, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(key));
#if PG_VERSION_NUM >= 180000
	scan = index_beginscan(rel, index, snapshot, NULL, 1, 0);
#else
	scan = index_beginscan(rel, index, snapshot, 1, 0);
#endif
	if (strcmp(broken, "rescan") == 0)
		index->rd_indam->amrescan = btrescan;
	index_rescan(scan, &skey, 1, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;

		if (strcmp(broken, "copy") == 0)
			((BTScanOpaque) scan->opaque)->currTuples = NULL;
		if (strcmp(broken, "row") == 0)
			ItemPointerSetOffsetNumber(&scan->xs_heaptid,
									   ItemPointerGetOffsetNumber(tid) == 1 ? 2 : 1);
		if (!index_fetch_heap(scan, slot))
			continue;
		appendStringInfo(&result, "%s%d:%d", result.len > 0 ? " " : "",
						 DatumGetInt32(slot_getattr(slot, 1, &isnull)),
						 DatumGetInt32(slot_getattr(slot, 2, &isnull)));
		if (snapshot == &dirty && TransactionIdIsValid(dirty.xmin))
			appendStringInfoChar(&result, '+');
		if (snapshot == &dirty && TransactionIdIsValid(dirty.xmax))
			appendStringInfoChar(&result, '-');
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, AccessShareLock);
	index_close(index, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text(result.data));
}
});
my ($cc, $include) = map { $node->config_data($_) } '--cc', '--includedir-server';
plan skip_all => 'no module can be made'
  if system("$cc -O1 -Wall -fPIC -shared -I$include -o $folder/my_fetches.so $dir/my_fetches.c") != 0;
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE FUNCTION fetch_by_index(regclass, int, text, text DEFAULT 'none') RETURNS text
	AS '$libdir/my_fetches' LANGUAGE C STRICT;
CREATE TABLE z (id int PRIMARY KEY, a int, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, a int, t text) USING heap;
CREATE INDEX z_a ON z (a);
CREATE INDEX h_a ON h (a);
INSERT INTO z SELECT g, 1, 'x' FROM generate_series(1, 9) g;
INSERT INTO h TABLE z;
-- in the order of ids, whatever the order of entries is
CREATE FUNCTION rows_of(t text, key int, kind text) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT string_agg(r, ' ' ORDER BY r) FROM regexp_split_to_table(fetch_by_index((t || '_a')::regclass, key, kind), ' ') r $$;
CREATE PROCEDURE twice(what text) LANGUAGE plpgsql AS $$
BEGIN EXECUTE replace(what, '@', 'z'); EXECUTE replace(what, '@', 'h'); END $$;
} . keyed_allow());
$node->safe_psql('postgres', q{CALL keyed_allow('z')});

# what each table shows by each key
sub rows
{
	my ($s, $table, $kind) = @_;
	return ask($s, "SELECT string_agg(k || ' [' || rows_of('$table', k, '$kind') || ']', ' ' ORDER BY k) FROM generate_series(1, 8) k");
}

my ($me, $other) = (session($node), session($node));
my @changes = (
	'UPDATE @ SET a = 2 WHERE id = 1',
	'UPDATE @ SET a = 3 WHERE id = 2', 'UPDATE @ SET a = 1 WHERE id = 2',
	'UPDATE @ SET a = 4 WHERE id = 3', 'UPDATE @ SET a = 5 WHERE id = 3',
	'DELETE FROM @ WHERE id = 3');
ask($me, "CALL twice('$_')") for @changes;
is(ask($me, q{SELECT count(*) FROM zheap_page_items('z', 0) WHERE 'stale' = ANY (flags)}), 3, 'keys change in place');
ask($me, "BEGIN; CALL twice('UPDATE @ SET a = 6 WHERE id = 4'); ROLLBACK");
ask($other, "BEGIN; CALL twice('UPDATE @ SET a = 7 WHERE id = 5')");
ask($other, "CALL twice('UPDATE @ SET a = 2 WHERE id = 9')");
ask($other, "CALL twice('UPDATE @ SET a = 1 WHERE id = 9')");
ask($me, "BEGIN; CALL twice('UPDATE @ SET a = 8 WHERE id = 6')");
ask($me, "CALL twice('UPDATE @ SET a = 8 WHERE id = 7'); CALL twice('UPDATE @ SET a = 1 WHERE id = 7')");
ask($me, "CALL twice('UPDATE @ SET a = 2 WHERE id = 8'); CALL twice('DELETE FROM @ WHERE id = 8')");
for my $kind ('mvcc', 'self', 'dirty')
{
	for my $s ([ 'writer', $me ], [ 'other writer', $other ])
	{
		my $heap = rows($s->[1], 'h', $kind);
		# in heap's the versions between have rows of their own
		$heap =~ s/ ?\b(?:9:[12]|7:[18]|8:2)\+//g if $kind eq 'dirty';
		$heap =~ s/\[ /[/g;
		is(rows($s->[1], 'z', $kind), $heap, "$kind, $s->[0]");
		like($heap, qr/2:1/, "$kind, $s->[0]: there are rows");
	}
}

# each row once, by the key that it was given last, whoever gave it
is(rows($me, 'z', 'any'), '1 [2:1 4:1 7:1 9:1] 2 [1:2] 3 [] 4 [] 5 [] 6 [] 7 [5:7] 8 [6:8]', 'any');
ask($_, 'COMMIT') for $me, $other;
for my $kind ('mvcc', 'self', 'dirty')
{
	is(rows($me, 'z', $kind), rows($me, 'h', $kind), "$kind, all have ended");
}

# what is broken is told; each in a session of its own, which the break spoils
my %broken = (
	rescan => qr/ERROR:  scan of an index of "z" isn't watched/,
	copy => qr/ERROR:  scan of index "z_a" has not kept its entries/,
	row => qr/ERROR:  scan of index "z_a" stands at row \(\d+,\d+\), not \(\d+,\d+\)/);
for my $what (sort keys %broken)
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT fetch_by_index('z_a', 2, 'mvcc', '$what')");
	like($err, $broken{$what}, "$what: the old entry's row");
	is($out, '', "$what: no row");
	($rc, $out, $err) = $node->psql('postgres', "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT fetch_by_index('z_a', 2, 'self', '$what')");
	like($err, $broken{$what}, "$what, another snapshot");
}
is($node->safe_psql('postgres', q{SELECT fetch_by_index('h_a', 2, 'mvcc', 'rescan') = fetch_by_index('z_a', 2, 'mvcc')}), 't', 'other sessions go on');
finish_session($_) for $me, $other;
check_tables($node, 'at the end');
$node->stop;
done_testing();
