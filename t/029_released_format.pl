# What 1.0 has written is read: table pages, indexes, large values and undo that
# t/fixture/make has kept, from the files of a server that was stopped with
# prepared transactions open.  A server of the same major goes on with them: it
# reads old versions, rolls back, commits.  On another major the prepared
# transactions are as after a crash: they are rolled back from undo.
#
# THE FORMAT IS RELEASED: if this fails, a change can't read files that users
# have.  Change it back, or give it a new version that reads the old one, too.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $fixture = "$FindBin::RealBin/fixture";
my $make = $ENV{ZHEAP_FIXTURE};		# a folder: made there
my @tables = qw(settled changed hot big packed spilled keyed crowd locked rewritten un aborted);
my $first_oid = 20000;

# A server with the schema at the OIDs that undo and large values name.
# Nothing but zheap tables needs the commit log: the fixture's takes its place.
sub schema_node
{
	my ($name, $schema, $conf) = @_;
	my $node = zheap_node($name, conf => "autovacuum = off\nmax_prepared_transactions = 40\n$conf");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');
	$node->stop;
	command_ok([ 'pg_resetwal', '-o', $first_oid, '-D', $node->data_dir ], "$name: OIDs from $first_oid on");
	$node->start;
	$node->safe_psql('postgres', $schema);
	# columns that the first rows of the table don't have
	$node->safe_psql('postgres', q{INSERT INTO settled SELECT g, repeat('s', g % 70) FROM generate_series(1, 300) g}) if $make;
	$node->safe_psql('postgres', q{ALTER TABLE settled ADD COLUMN added int DEFAULT 7; ALTER TABLE changed ADD COLUMN going int; ALTER TABLE changed DROP COLUMN going});
	return $node;
}

# Files of tables, TOAST tables and indexes by names that don't depend on them.
sub files_of
{
	my ($node) = @_;
	my $list = join ',', map { "'$_'::regclass" } @tables;
	my %file = map { split /\|/ } split /\n/, $node->safe_psql('postgres', qq{
WITH mine AS (SELECT oid, relname::text AS name FROM pg_class WHERE oid IN ($list)
	UNION ALL SELECT reltoastrelid, relname || '.toast' FROM pg_class WHERE oid IN ($list))
SELECT name, pg_relation_filepath(oid) FROM mine WHERE oid <> 0
UNION ALL SELECT m.name || '.' || row_number() OVER (PARTITION BY m.oid ORDER BY i.indexrelid), pg_relation_filepath(i.indexrelid)
	FROM mine m JOIN pg_index i ON i.indrelid = m.oid});
	return \%file;
}

sub oids
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT relname, oid, reltoastrelid FROM pg_class WHERE relname IN (' . join(',', map { "'$_'" } @tables) . ') ORDER BY oid');
}

sub digests
{
	my ($node, $schema) = @_;
	return join '', map {
		$node->safe_psql('postgres', "SELECT '$_', count(*), md5(string_agg(x::text, ';' ORDER BY x::text)) FROM $schema.$_ x") . "\n"
	} @tables;
}

# How many of each kind of row, flag and undo record there are.
sub kinds
{
	my ($node) = @_;
	my $pages = join ' UNION ALL ', map { "SELECT '$_'::regclass AS t, b FROM generate_series(0, pg_relation_size('$_') / 8192 - 1) b" } @tables;
	return $node->safe_psql('postgres', qq{
WITH pages AS MATERIALIZED ($pages),
	items AS (SELECT i.* FROM pages, zheap_page_items(t, b) i),
	records AS (SELECT r.* FROM pages, zheap_page_slots(t, b) s, zheap_undo_records(t, b, s.id) r WHERE s.fxid IS NOT NULL)
SELECT * FROM (SELECT 'line pointer ' || state AS what, count(*) FROM items GROUP BY 1
UNION ALL SELECT 'row ' || f, count(*) FROM items, unnest(flags) f GROUP BY 1
UNION ALL SELECT 'page ' || f, count(*) FROM pages, unnest(zheap_page_flags(t, b)) f WHERE f <> 'all_resolved' GROUP BY 1
UNION ALL SELECT 'record ' || kind, count(*) FROM records GROUP BY 1
UNION ALL SELECT 'record flag ' || f, count(*) FROM records, unnest(flags) f GROUP BY 1) k ORDER BY what COLLATE "C"});
}

sub put_text { my ($name, $text) = @_; put("$make/$name", $text); return }

if ($make)
{
	make_it();
	done_testing();
	exit;
}

# ----------------------------------------------------------------
#	reading it
# ----------------------------------------------------------------
my $released = 'THE FORMAT OF 1.0 IS RELEASED, and files of it must be read: see t/029_released_format.pl';
my $good;
plan skip_all => "no fixture is kept: t/fixture/make" if !-e "$fixture/1.0.tar.gz";

my $dir = PostgreSQL::Test::Utils::tempdir;
command_ok([ 'tar', '-xzf', "$fixture/1.0.tar.gz", '-C', $dir ], 'unpacked');
sub kept { return slurp_file("$dir/$_[0]") }

# what aborted is looked at before it is rolled back
my $node = schema_node('released', kept('schema.sql'), "zheap.rollback_paused = on\n");
is(oids($node), kept('oids'), 'the same OIDs as when it was made') or die 'the fixture needs its OIDs';
my $same_major = int($node->pg_version->major) == kept('major');
my $files = files_of($node);
is(join(' ', sort keys %$files), kept('names'), 'the same tables and indexes');
# catalogs are not to need the commit log
$node->safe_psql('postgres', 'VACUUM (FREEZE)');
$node->stop;

my $data = $node->data_dir;
for my $name (keys %$files)
{
	my $to = "$data/$files->{$name}";
	unlink glob("$to $to\_*");
	for my $from (glob "$dir/rel/$name*")
	{
		my ($fork) = $from =~ m{/\Q$name\E(_\w+)?$} or next;
		copy($from, $to . ($fork // '')) or die "$from: $!";
	}
}
sub replace
{
	my ($folder) = @_;
	unlink glob "$data/$folder/*";
	mkdir "$data/$folder";
	copy($_, "$data/$folder/") or die "$_: $!" for glob "$dir/$folder/*";
	return;
}
replace('base/9');
replace('pg_xact');
replace('pg_twophase') if $same_major;
my ($next_xid, $wal) = split ' ', kept('control');
command_ok([ 'pg_resetwal', '-x', $next_xid, '-l', $wal, '-D', $data ], 'next xid and position in WAL of then');

$good = 1;
ok($node->start(fail_ok => 1), 'a server starts on it') or die $released;
sub must_be { my ($got, $want, $what) = @_; $good &= is($got, $want, $what); return }
sub must { my ($sql) = @_; my ($rc, $out, $err) = $node->psql('postgres', $sql); return $rc == 0 ? $out : $err }

my $digests = sub { my $d = eval { digests($node, 'public') }; return $d // $@ };
if ($same_major)
{
	must_be(must('SELECT count(*) FROM pg_prepared_xacts') . "\n", kept('prepared'), 'prepared transactions');
	must_be(kinds($node), kept('kinds'), 'each kind of row, page and undo record');
}
must_be($digests->(), kept('open'), 'rows while transactions are open');
must_be(must("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT string_agg(k::text || ' ' || v, ',' ORDER BY k) FROM keyed WHERE v > -1"),
	must("SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT string_agg(k::text || ' ' || v, ',' ORDER BY k) FROM keyed WHERE v > -1"), 'by an index with old entries');
$good &= check_tables($node, 'while transactions are open');
set_conf($node, 'zheap.rollback_paused' => 'off');
if ($same_major)
{
	must(q{COMMIT PREPARED 'commits'});
	must("ROLLBACK PREPARED '$_'") for split /\n/, must(q{SELECT gid FROM pg_prepared_xacts WHERE gid !~ 'crowd'});
	must("COMMIT PREPARED '$_'") for split /\n/, must('SELECT gid FROM pg_prepared_xacts');
	must_be($digests->(), kept('ended'), 'rows when they have ended');
}
$good &= undo_quiet($node, 'what aborted is rolled back, all undo is discarded');
my $rows = $same_major ? kept('ended') : kept('open');
must_be($digests->(), $rows, 'rows afterwards');
$node->safe_psql('postgres', 'VACUUM');
must_be($digests->(), $rows, 'and after VACUUM');
$good &= check_tables($node, 'afterwards');
must("BEGIN; UPDATE $_ SET k = -k; DELETE FROM $_ WHERE k % 3 = 0; ROLLBACK") for @tables;
must_be($digests->(), $rows, 'changed, and rolled back');
$good &= must(join ';', map { "UPDATE $_ SET k = -k" } @tables) eq '';
$node->restart;
$good &= check_tables($node, 'changed');
$node->stop;
$good &= log_is_clean($node);

# the versions that new pages have
sub version_of { my ($file, $at, $size) = @_; return unpack($size == 1 ? 'C' : 'S', substr(content($file), $at, $size)) }
must_be(version_of("$data/$files->{settled}", 8192 - 6, 1), 1, 'version of table pages');
must_be(version_of("$data/base/9/1", 8152 + 4, 2), 1, 'version of undo and WAL');
ok($good, 'all is read that 1.0 has written');
done_testing();

# whatever has gone wrong
END { diag($released) if defined $good && ($? != 0 || !Test::More->builder->is_passing) }

# ----------------------------------------------------------------
#	making it
# ----------------------------------------------------------------

my $maker;

# The same statements in the zheap tables and in heap's.
sub twice
{
	my ($sql) = @_;
	return "SET search_path = public; $sql; SET search_path = h; $sql; SET search_path = public;";
}
sub both { my ($sql) = @_; return $maker->safe_psql('postgres', 'BEGIN;' . twice($sql) . 'COMMIT;') }
sub prepared { my ($gid, $sql) = @_; return $maker->safe_psql('postgres', 'BEGIN;' . twice($sql) . "PREPARE TRANSACTION '$gid';") }

sub make_it
{
	my $schema = slurp_file("$fixture/schema.sql");
	my $random = sub { my ($seed, $n) = @_; return "(SELECT string_agg(md5(k || '$seed' || g), '') FROM generate_series(1, $n) g)" };

	$maker = schema_node('maker', $schema, "zheap.rollback_foreground_size = 0\n");
	put_text('schema.sql', $schema);
	put_text('oids', oids($maker));
	$maker->safe_psql('postgres', 'CREATE SCHEMA h;' . join '', map { "CREATE TABLE h.$_ (LIKE $_ INCLUDING STORAGE) USING heap; INSERT INTO h.$_ SELECT * FROM $_;" } @tables);
	both(q{
INSERT INTO changed SELECT g, 0, repeat('c', g % 50) FROM generate_series(1, 300) g;
INSERT INTO hot SELECT g, 0, 'hot' FROM generate_series(1, 20) g;
INSERT INTO packed SELECT g, repeat('packed', 1000) FROM generate_series(1, 10) g;
INSERT INTO spilled SELECT g, repeat('a', 80) FROM generate_series(1, 200) g;
INSERT INTO keyed SELECT g, g, 'keyed' FROM generate_series(1, 100) g;
INSERT INTO crowd SELECT g, 0, repeat('x', 22) FROM generate_series(1, 400) g;
INSERT INTO locked SELECT g, g, 'locked' FROM generate_series(1, 20) g;
INSERT INTO rewritten SELECT g, 0, repeat('r', 30) FROM generate_series(1, 100) g;
INSERT INTO un SELECT g, 0 FROM generate_series(1, 50) g;
INSERT INTO aborted SELECT g, 0, repeat('a', 20) FROM generate_series(1, 100) g});
	both("INSERT INTO big SELECT k, 0, $_ FROM generate_series(1, 8) k") for $random->('b', 200);
	undo_quiet($maker, 'before');
	$maker->safe_psql('postgres', 'VACUUM; ' . keyed_allow() . "SET zheap.update_indexed_in_place = on; CALL keyed_allow('keyed'); DROP PROCEDURE keyed_allow");

	# undo is kept from here on
	prepared('holder', q{INSERT INTO settled SELECT g, 'held' FROM generate_series(1001, 1050) g});
	my $old = session($maker);
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM settled');

	both(q{UPDATE changed SET v = k, t = t || 'longer' WHERE k % 3 = 0});
	both(q{UPDATE changed SET t = left(t, 5) WHERE k % 5 = 0});
	both(q{DELETE FROM changed WHERE k % 20 = 1});
	both(q{UPDATE changed SET t = repeat('moves', 200) WHERE k % 25 = 2});
	both(q{SAVEPOINT a; UPDATE changed SET v = v + 1 WHERE k < 40; SAVEPOINT b; UPDATE changed SET v = v + 1 WHERE k < 20; RELEASE b; ROLLBACK TO a; UPDATE changed SET v = v - 5 WHERE k < 30; RELEASE a});
	both(q{INSERT INTO changed VALUES (501, 1, 'speculative'), (502, 2, 'too') ON CONFLICT DO NOTHING});
	both("UPDATE hot SET v = v + 1 WHERE k <= 2") for 1 .. 60;
	both(q{UPDATE big SET t = overlay(t PLACING 'changed' FROM 3000), v = 1 WHERE k < 4});
	both(q{DELETE FROM big WHERE k = 8});
	both(q{UPDATE packed SET t = t || 'more' WHERE k < 5});
	both(q{DELETE FROM spilled WHERE k <= 100});
	both(q{INSERT INTO spilled SELECT g, repeat('b', 80) FROM generate_series(301, 380) g});
	both(q{SET LOCAL zheap.update_indexed_in_place = on; UPDATE keyed SET v = v + 1000 WHERE k % 4 = 0; DELETE FROM keyed WHERE k = 8});
	both(q{UPDATE rewritten SET v = 1, t = t || 'x' WHERE k % 2 = 0; DELETE FROM rewritten WHERE k % 10 = 1});
	$maker->safe_psql('postgres', 'VACUUM FULL rewritten');
	both(q{UPDATE rewritten SET v = v + 1 WHERE k % 3 = 0});
	both(q{UPDATE un SET v = k WHERE k % 2 = 0});

	# more transactions than a page has xact slots, and rows that many lock
	prepared("crowd $_", "UPDATE crowd SET v = v + 1 WHERE k = $_") for 1 .. 10;
	both(q{DELETE FROM crowd WHERE k BETWEEN 20 AND 25});
	both(q{UPDATE crowd SET v = 5 WHERE k BETWEEN 30 AND 35});
	prepared('crowd deletes', q{DELETE FROM crowd WHERE k BETWEEN 40 AND 45});
	prepared("locks $_", 'SELECT FROM locked WHERE k <= 10 FOR KEY SHARE') for 1 .. 2;
	both(q{UPDATE locked SET v = v + 100 WHERE k <= 5});
	both(q{UPDATE locked SET t = 'in place' WHERE k > 3});
	prepared('locks 3', 'SELECT FROM locked WHERE k > 10 FOR UPDATE');

	# what is to be rolled back, and to be committed
	for my $end ([ 'aborts', 0 ], [ 'commits', 1 ])
	{
		my ($gid, $mod) = @$end;
		prepared($gid, qq{
SET LOCAL zheap.update_indexed_in_place = on;
UPDATE changed SET v = -v, t = '$gid' WHERE k > 100 AND k % 2 = $mod;
SAVEPOINT a;
UPDATE changed SET v = v - 1, t = t || 'again and longer' WHERE k > 150 AND k % 2 = $mod;
DELETE FROM changed WHERE k > 200 AND k % 4 = $mod;
SAVEPOINT b;
UPDATE changed SET v = 0, k = k + 1000 WHERE k BETWEEN 160 AND 180 AND k % 2 = $mod;
ROLLBACK TO b;
INSERT INTO changed SELECT g, 0, 'new' FROM generate_series(600 + 50 * $mod, 620 + 50 * $mod) g;
UPDATE hot SET v = -1 WHERE k = 1 + $mod;
UPDATE hot SET t = repeat('moves', 300) WHERE k % 2 = $mod AND k > 10;
UPDATE big SET t = overlay(t PLACING '$gid' FROM 5000) WHERE k IN (3 + $mod, 5 + $mod);
DELETE FROM big WHERE k = 1 + $mod;
UPDATE packed SET t = left(t, 5000) || '$gid' WHERE k % 2 = $mod;
DELETE FROM spilled WHERE k BETWEEN 120 AND 160 AND k % 2 = $mod;
UPDATE keyed SET v = v + 5000 WHERE k > 50 AND k % 2 = $mod;
DELETE FROM keyed WHERE k > 90 AND k % 4 = $mod;
UPDATE rewritten SET v = -1 WHERE k % 2 = $mod;
DELETE FROM rewritten WHERE k % 8 = $mod;
UPDATE un SET v = -1 WHERE k % 2 = $mod});
	}
	ask($old, 'COMMIT');
	finish_session($old);
	# aborted, and nobody has rolled it back
	set_conf($maker, 'zheap.rollback_paused' => 'on');
	$maker->safe_psql('postgres', q{BEGIN; UPDATE aborted SET v = -1, t = 'never'; DELETE FROM aborted WHERE k % 2 = 0; INSERT INTO aborted SELECT g FROM generate_series(201, 250) g; ROLLBACK});

	is(digests($maker, 'public'), digests($maker, 'h'), 'rows are as on heap');
	put_text('open', digests($maker, 'h'));
	put_text('prepared', $maker->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') . "\n");
	put_text('major', int($maker->pg_version->major));
	my $kinds = kinds($maker);
	put_text('kinds', $kinds);
	note($kinds);
	like($kinds, qr/^\Q$_\E\|/m, "there is: $_")
	  for 'line pointer spilled', map({ "record $_" } qw(insert_open insert_set update delete move lock)),
	  'page stale', 'page has_shared', 'page has_spill';
	my $files = files_of($maker);
	put_text('names', join(' ', sort keys %$files));
	$maker->stop;

	my $data = $maker->data_dir;
	mkdir "$make/$_" for qw(rel base base/9 pg_xact pg_twophase);
	for my $name (keys %$files)
	{
		for my $from (glob "$data/$files->{$name} $data/$files->{$name}_*")
		{
			my ($fork) = $from =~ /\d+(_[a-z]+)?$/;
			copy($from, "$make/rel/$name" . ($fork // '')) or die "$from: $!" if ($fork // '') ne '_fsm' && -e $from;
		}
	}
	for my $folder (qw(base/9 pg_xact pg_twophase))
	{
		copy($_, "$make/$folder/") or die "$_: $!" for glob "$data/$folder/*";
	}
	my ($control) = run_command([ 'pg_controldata', $data ]);
	my ($next_xid) = $control =~ /NextXID: +0:(\d+)/;
	my ($timeline, $file) = $control =~ /REDO WAL file: +([0-9A-F]{8})([0-9A-F]{16})/;
	put_text('control', sprintf("%d %s%s%08X\n", $next_xid + 1000, $timeline, substr($file, 0, 8), hex(substr($file, 8)) + 4));

	# what heap makes of the ends
	$maker->start;
	$maker->safe_psql('postgres', q{COMMIT PREPARED 'commits'});
	$maker->safe_psql('postgres', "ROLLBACK PREPARED '$_'") for split /\n/, $maker->safe_psql('postgres', q{SELECT gid FROM pg_prepared_xacts WHERE gid !~ 'crowd'});
	$maker->safe_psql('postgres', "COMMIT PREPARED '$_'") for split /\n/, $maker->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
	is(digests($maker, 'public'), digests($maker, 'h'), 'rows are as on heap in the end');
	put_text('ended', digests($maker, 'h'));
	$maker->stop;
	return;
}
