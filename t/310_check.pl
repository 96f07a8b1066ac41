# zheap_check() finds what is planted: damage to pages, xact slots, rows, undo
# records, the visibility map and indexes; and nothing where there is none.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

# without checksums, so that damage gets past the buffer manager
my $node = PostgreSQL::Test::Cluster->new('check');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 50ms
max_prepared_transactions = 10
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');
my $data = $node->data_dir;

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub findings
{
	my ($table, $where) = @_;
	return sql(q{SELECT coalesce(string_agg(format('%s:%s %s [%s]', block, "offset", what, expected), E'\n'), '') FROM (}
		  . qq{SELECT * FROM zheap_check('$table') WHERE } . ($where // 'true') . ' LIMIT 5) c');
}

sub path
{
	my ($rel) = @_;
	return "$data/" . sql("SELECT pg_relation_filepath('$rel')");
}

# A table for each kind of damage; all sound before it.
my %kind = map { $_ => "d_$_" }
  qw(page pointer future owners norecord ended length vm_flag vm_dead undo_zero undo_writer undo_kind
  dangling missing values partial gin hash toast);
for my $t (values %kind)
{
	sql(qq{
CREATE TABLE $t (k int PRIMARY KEY, c int, t text, a int[]) USING zheap;
INSERT INTO $t SELECT g, g, repeat('t', g % 40), ARRAY[g, -g] FROM generate_series(1, 1000) g;
VACUUM $t;
UPDATE $t SET c = c + 1 WHERE k % 10 = 0;
DELETE FROM $t WHERE k % 100 = 1;});
}
sql('CREATE INDEX d_gin_a ON d_gin USING gin (a); CREATE INDEX d_hash_c ON d_hash USING hash (c)');
sql(q{CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE INDEX d_values_f ON d_values (f(c)); CREATE INDEX d_partial_f ON d_partial (c) WHERE f(c) > 500;
ALTER TABLE d_toast ALTER t SET STORAGE EXTERNAL;
UPDATE d_toast SET t = repeat('long', 2000) WHERE k = 500});
is(findings($_), '', "$_ is sound") for sort values %kind;

# --- indexes, by lies to the catalog
sql(q{UPDATE pg_index SET indisready = false WHERE indexrelid IN ('d_missing_pkey'::regclass, 'd_gin_a'::regclass, 'd_hash_c'::regclass)});
sql("INSERT INTO $_ VALUES (2000, 1, 'new', '{7}')") for qw(d_missing d_gin d_hash);
sql(q{UPDATE pg_index SET indisready = true WHERE NOT indisready});
like(findings('d_missing'), qr/index "d_missing_pkey": no entry for a row \[one entry\]/, 'row without an entry, btree');
like(findings('d_gin'), qr/index "d_gin_a": no entry for a row/, 'row without an entry, gin');
like(findings('d_hash'), qr/index "d_hash_c": no entry for a row/, 'row without an entry, hash');
sql(q{CREATE OR REPLACE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 5'});
like(findings('d_values'), qr/index "d_values_f": entry with other values than those of its row/, 'entry with other values');
like(findings('d_partial'), qr/index "d_partial_f": no entry for a row/, 'row that came into a partial index');
sql(q{CREATE OR REPLACE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 - 5'});
like(findings('d_partial'), qr/index "d_partial_f": entry for a row that it is not about/, 'row that left a partial index');
my $toast = sql("SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'd_toast'");

# --- undo that a prepared transaction keeps over restarts
my %undo;
for my $kind (qw(undo_zero undo_writer undo_kind))
{
	my $t = $kind{$kind};
	sql("BEGIN; UPDATE $t SET c = -c WHERE k <= 20; PREPARE TRANSACTION '$kind'");
	my $urp = sql(qq{SELECT r.urp FROM zheap_page_slots('$t', 0) s, zheap_undo_records('$t', 0, s.id) r
WHERE s.status = 'running' AND r.kind = 'update' LIMIT 1 OFFSET 3});
	my ($log, $block, $off) = split m{/}, $urp;
	$undo{$kind} = [ "$data/base/9/" . (100 + $log), $block * 8192 + $off ];
	is(findings($t), '', "$t is sound with a prepared transaction");
}

# --- the visibility map
sql("VACUUM $_") for qw(d_vm_flag d_vm_dead);
my %vm = map { $_ => path($_) . '_vm' } qw(d_vm_flag d_vm_dead);

# entries of rows that are gone
my $index = path('d_dangling_pkey');
$node->stop;
my $old_index = content($index);
my %old_vm = map { $_ => content($vm{$_}) } keys %vm;
$node->start;
sql("DELETE FROM d_dangling WHERE k > 500; DELETE FROM d_vm_flag WHERE k = 5; DELETE FROM d_vm_dead WHERE k = 5");
ok($node->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM d_dangling WHERE k > 500)}), 'deleted');
sql('VACUUM d_dangling');

# --- pages: where things are
sub slot_at    # position of xact slot id of block 0
{
	my ($t, $id) = @_;
	my $n = sql("SELECT count(*) FROM zheap_page_slots('$t', 0)");
	return 8192 - 8 - 16 * $n + 16 * ($id - 1);
}
my %at;
sql("BEGIN; UPDATE $kind{$_} SET c = 0 WHERE k IN (2, 3, 4); PREPARE TRANSACTION '$_'") for qw(future owners norecord ended);
my %slot = map { $_ => sql("SELECT id FROM zheap_page_slots('$kind{$_}', 0) WHERE status = 'running'") } qw(future owners norecord ended);
$at{$_} = slot_at($kind{$_}, $slot{$_}) for keys %slot;
my $next = sql('SELECT pg_current_xact_id()');
# a row's place, and that of its xact slot id
my ($ended_off, $ended_lp) = split /\|/,
  sql("SELECT lp_off, lp FROM zheap_page_items('d_ended', 0) WHERE xact_slot = $slot{ended} ORDER BY lp LIMIT 1");
my $length_off = sql("SELECT lp_off FROM zheap_page_items('d_length', 0) WHERE state = 'normal' ORDER BY lp OFFSET 20 LIMIT 1");
my $toast_file = path($toast);
my %file = map { $_ => path($kind{$_}) } keys %kind;
my $other = $slot{owners} == 1 ? 2 : 1;
my $other_at = slot_at('d_owners', $other);
my $owner = sql("SELECT fxid FROM zheap_page_slots('d_owners', 0) WHERE id = $slot{owners}");
$node->stop;

put($index, $old_index);
put($vm{d_vm_flag}, $old_vm{d_vm_flag});
put($vm{d_vm_dead}, $old_vm{d_vm_dead});
# PD_ALL_VISIBLE
overwrite($file{vm_dead}, 10, pack('S', unpack('S', substr(content($file{vm_dead}), 10, 2)) | 4));
overwrite($toast_file, 0, "\0" x 8192);
# magic number of the second page
overwrite($file{page}, 16384 - 8, pack('S', 8));
overwrite($file{pointer}, 24, pack('L', 8190 | (1 << 15) | (2 << 17)));
overwrite($file{future}, $at{future}, pack('Q', $next + 1000));
overwrite($file{owners}, $other_at, pack('QQ', $owner, 1 << 15));
overwrite($file{norecord}, $at{norecord} + 8, pack('Q', 0));
# DELETED
overwrite($file{ended}, $ended_off + 3, pack('S', unpack('S', substr(content($file{ended}), $ended_off + 3, 2)) | 2));
# one column more than the table has
overwrite($file{length}, $length_off + 1, pack('S', unpack('S', substr(content($file{length}), $length_off + 1, 2)) + 1));
overwrite($undo{undo_zero}[0], $undo{undo_zero}[1], "\0" x 40);
# the kind, in the first byte
overwrite(@{$undo{undo_kind}}[0, 1], "\x3F");
# the row's block, behind the kind and two packed numbers: length and run
my ($undo_file, $block_at) = ($undo{undo_writer}[0], $undo{undo_writer}[1] + 1);
my $undo_bytes = content($undo_file);
for (1 .. 2)
{
	$block_at++ while ord(substr($undo_bytes, $block_at, 1)) & 0x80;
	$block_at++;
}
is(substr($undo_bytes, $block_at, 1), "\0", 'block 0 in an undo record');
overwrite($undo_file, $block_at, "\x4D");
$node->start;

like(findings('d_dangling'), qr/index "d_dangling_pkey": entry without a line pointer \[a line pointer that is in use\]/, 'entry of no row');
like(findings('d_vm_flag'), qr/^0: all-visible in the visibility map but not on the page/m, 'map and page disagree');
like(findings('d_vm_dead'), qr/^0:\d+ (?:ended row|line pointer without a row) on a page marked all-visible/m, 'ended row on an all-visible page');
like(findings('d_toast'), qr/^\d+:\d+ (?:missing|unexpected) chunk number/m, 'toasted value is gone');
like(findings('d_page'), qr/^1: .*\[a sound zheap page\]/m, 'page header');
like(findings('d_pointer'), qr/^0: .*\[a sound zheap page\]/m, 'line pointer');
like(findings('d_future'), qr/^0: xact slot \d+ belongs to transaction \d+ \[a transaction before \d+\]/m, 'owner of the future');
like(findings('d_owners'), qr/^0: xact slots \d+ and \d+ have the same owner \[one xact slot/m, 'two xact slots of one owner');
like(findings('d_norecord'), qr/^0: xact slot \d+ has an owner but no undo record/m, 'owner without a record');
like(findings('d_ended'), qr/^0:$ended_lp newest undo record of the row is of kind 3 \[a record that ends the row\]/m, 'ended row without its record');
like(findings('d_length'), qr/^0:\d+ row has 5 columns \[not more than the 4 of the table\]/m, 'row with too many columns');
like(findings($kind{undo_zero}), qr/undo record .* cannot be read: there is no undo record at this offset/, 'undo record of zeroes');
like(findings($kind{undo_kind}), qr/malformed undo record/, 'undo record of an unknown kind');
like(findings($kind{undo_writer}), qr/undo record .* cannot be read: the undo record is of another table block/, 'undo record of another block');

# the damaged page doesn't hide the others, nor the index its table
like(findings('d_undo_zero', 'what !~ $$undo$$'), qr/^$/, 'nothing but the undo');
is(sql('SELECT count(DISTINCT block) FROM zheap_check($$d_page$$) WHERE block <> 1'), '0', 'other pages are sound');
$node->stop('immediate');
is(join("\n", grep { /TRAP:|PANIC:|terminated by signal/ } split /\n/, slurp_file($node->logfile)), '', 'no crash');
done_testing();
