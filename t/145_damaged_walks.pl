# Damaged links and values that would lead a walk to no end, or into memory, and redo
# of a page that is none: an error that names the place; statements fail, the server
# goes on.
# Needs a server with assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

# without checksums damage reaches our own checks
my $node = PostgreSQL::Test::Cluster->new('walks');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
max_prepared_transactions = 5
restart_after_crash = on
autovacuum = off
zheap.debug_set = 'shared-slot=1'
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE plain AS SELECT 1;
CREATE TABLE p (id int PRIMARY KEY, v int) USING zheap;
INSERT INTO p SELECT g, 0 FROM generate_series(1, 20) g;
CREATE TABLE large (id int PRIMARY KEY, s text) USING zheap;
ALTER TABLE large ALTER s SET STORAGE EXTERNAL;
INSERT INTO large VALUES (1, repeat('x', 5000));
CREATE TABLE moved (id int PRIMARY KEY, s text) USING zheap;
ALTER TABLE moved ALTER s SET STORAGE PLAIN;
INSERT INTO moved SELECT g, repeat('x', 3000) FROM generate_series(1, 2) g;
});
my $data = $node->data_dir;

sub path
{
	return "$data/" . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_[0]')");
}

# The place of bytes in a file, counted from where they are looked for.
sub find
{
	my ($file, $from, $bytes) = @_;
	my $at = index(substr(content($file), $from, 8192), $bytes);
	die "no such bytes in $file" if $at < 0;
	return $from + $at;
}

# A stopped server's file has other bytes while statements are refused.
sub refused
{
	my ($what, $file, $at, $bytes, $error, @sql) = @_;
	my $old = substr(content($file), $at, length $bytes);

	overwrite($file, $at, $bytes);
	$node->start;
	for my $sql (@sql)
	{
		my (undef, $out, $err) = $node->psql('postgres', $sql);
		like("$out$err", $error, "$what: $sql");
	}
	is($node->safe_psql('postgres', 'SELECT count(*) FROM plain'), '1', "$what: the server lives");
	$node->stop;
	overwrite($file, $at, $old);
}

# --- the chain of a shared xact slot, of records in four logs.  Who wrote the oldest
# one is the youngest transaction, so all links name that.
my @s = map { my $s = session($node); ask($s, 'BEGIN; SELECT pg_current_xact_id()'); $s } 1 .. 4;
is(ask($s[$_], 'SELECT id FROM p WHERE id = 2 + ' . $_ . ' FOR UPDATE'), 2 + $_, "lock $_") for 3, 0, 1, 2;
my @place = reverse map { [ split m{/} ] } split /\n/, ask($s[0], q{SELECT urp FROM zheap_undo_records('p', 0, 255)});
is(scalar(@place), 4, 'all are in the chain of the shared xact slot');
is(ask($s[$_], "PREPARE TRANSACTION 's$_'"), '', 'prepared') for 0 .. 3;
finish_session($_) for @s;

# a row that moved, which the prepared ones keep from being old
$node->safe_psql('postgres', q{UPDATE moved SET s = repeat('y', 6000) WHERE id = 1});
my ($to, $by) = split /\|/, $node->safe_psql('postgres', q{
SELECT m.ctid, r.urp FROM moved m, zheap_page_slots('moved', 0) s, zheap_undo_records('moved', 0, s.id) r
WHERE m.id = 1 AND r.kind = 'move'});
is($node->safe_psql('postgres', q{SELECT currtid2('moved', '(0,1)')}), $to, 'a row moved');
my $large = path('large');
$node->stop;

# from log, undo page and offset to where it is in a file
sub undo_place
{
	my ($log, $block, $offset) = @_;
	return ("$data/base/9/" . (100 + $log), 8192 * $block + $offset);
}

# a link to another log: 4 << 13 | offset, log, difference of blocks
sub undo_link
{
	my ($from, $to) = @_;
	die 'undo is not in the first undo page' if $from->[1] != $to->[1];
	return pack('SCC', 4 << 13 | $to->[2], $to->[0], 0);
}

my ($file, $at) = undo_place(@{ $place[1] });
refused('a ring of shared locks', $file, find($file, $at, undo_link($place[1], $place[0])),
	undo_link($place[1], $place[2]), qr/undo of table block 0 comes back to undo record/,
	'SELECT id FROM p WHERE id = 2 FOR UPDATE', q{SELECT * FROM zheap_check('p')});

# --- a move to where the row was.  The place is the last 6 bytes of the record.
($file, $at) = undo_place(split m{/}, $by);
my ($block, $off) = $to =~ /\((\d+),(\d+)\)/;
refused('a row that moved to itself', $file, find($file, $at, pack('SSS', 0, $block, $off)), pack('SSS', 0, 0, 1), qr/^\(0,1\)$/,
	q{SELECT currtid2('moved', '(0,1)')});

# --- a large value's pointer (18) becomes one into memory
my $pointer = find($large, 0, pack('CCLL', 1, 18, 5004, 5000));
refused("tag $_ of a large value", $large, $pointer + 1, chr($_),
	qr/of the zheap relation with OID \d+, of \d+ bytes, ends within column 2/,
	'SELECT length(s) FROM large', q{UPDATE large SET s = s || 'x'}) for 1, 2, 3;

$node->start;
is($node->safe_psql('postgres', 'SELECT length(s) FROM large'), '5000', 'a large value is there');
is($node->safe_psql('postgres', q{SELECT currtid2('moved', '(0,1)')}), $to, 'so is the row that moved');
$node->safe_psql('postgres', "COMMIT PREPARED 's$_'") for 0 .. 3;
check_tables($node, 'whole again');
$node->stop;
log_is_clean($node);

# --- redo of a list of locks, which looks for no row, on a page that is none
$node->append_conf('postgresql.conf', q{
full_page_writes = off
bgwriter_lru_maxpages = 0
zheap.debug_set = 'shared-slot=1,list-after=2'
});
$node->start;
my $table = path('p');
my $listed = 0;
my $l = session($node);
ask($l, 'BEGIN');
for my $id (1 .. 20)
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	ask($l, "SAVEPOINT a; SELECT id FROM p WHERE id = $id FOR UPDATE");
	$listed = ask($l, q{SELECT count(*) FROM zheap_undo_records('p', 0, 255) WHERE kind = 'list'});
	last if $listed;
}
is($listed, '1', 'a list is the first change since a checkpoint');
$node->safe_psql('postgres', 'INSERT INTO plain VALUES (2)');
kill_server($node);
finish_session($l);
my $magic = substr(content($table), 8192 - 8, 2);
overwrite($table, 8192 - 8, 'xx');
ok(!start_after_kill($node), 'redo refuses a page that is none of ours');
like(slurp_file($node->logfile), qr/PANIC:  zheap redo: block 0 is not a zheap page/, '... and says so');
overwrite($table, 8192 - 8, $magic);
unlink "$data/postmaster.pid";
ok(start_after_kill($node), 'it goes on when the page is one');
is($node->safe_psql('postgres', 'SELECT count(*) FROM p'), '20', 'nothing is lost');
check_tables($node, 'after redo');
$node->stop;
done_testing();
