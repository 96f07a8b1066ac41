# zheap-waldump, without a server: it says of each of our records what
# pg_walinspect says in one, and of all others what pg_waldump says.  Records of
# all kinds, long ones that cross pages and segments among them.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('waldump', extra => [ '--data-checksums', '--wal-segsize=1' ], conf => q{
autovacuum = off
wal_level = logical
zheap.rollback_foreground_size = 0
wal_compression = on
wal_keep_size = 256MB
});
$node->start;
plan skip_all => 'no pg_walinspect here'
  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_walinspect'}) eq '0';
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am; CREATE EXTENSION pg_walinspect');
my $from = wal_position($node);
for my $statement (split /;\n/, q{
CREATE TABLE t (a int PRIMARY KEY, b int, t text) USING zheap;
INSERT INTO t SELECT g, 0, repeat('t', g % 100) FROM generate_series(1, 2000) g;
CHECKPOINT;
UPDATE t SET b = b + 1 WHERE a <= 500;
UPDATE t SET a = a + 10000 WHERE a <= 50;
DELETE FROM t WHERE a % 7 = 0;
SELECT count(*) FROM (SELECT 1 FROM t WHERE a > 1900 FOR UPDATE) q;
INSERT INTO t VALUES (1999, 0, '') ON CONFLICT (a) DO UPDATE SET b = 5;
INSERT INTO t VALUES (20000, 0, '') ON CONFLICT (a) DO NOTHING;
INSERT INTO t SELECT g, 0, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 300) i) FROM generate_series(30000, 30100) g;
BEGIN; UPDATE t SET b = b + 1; ROLLBACK;
SELECT pg_zheap_drain_undo();
CREATE TABLE other (a int) USING heap;
INSERT INTO other SELECT generate_series(1, 100);
VACUUM t})
{
	$node->safe_psql('postgres', $statement);
}
# undo is gone, and its WAL written
undo_quiet($node, 'before the end');
$node->safe_psql('postgres', $_) for ('SELECT pg_switch_wal()', 'INSERT INTO other VALUES (0)');
# not right behind a switch, which pg_waldump takes for the middle of a record
my $to = wal_position($node);
$node->safe_psql('postgres', 'INSERT INTO other VALUES (1)');

my %inspected = map { my @f = split /\|/, $_, 3; $f[0] => [ @f[ 1, 2 ] ] } split /\n/, $node->safe_psql('postgres', qq{
SELECT start_lsn, record_type, description FROM pg_get_wal_records_info('$from', '$to')
WHERE resource_manager = 'zheap'});
my ($first, $last) = split /\n/, $node->safe_psql('postgres', qq{SELECT pg_walfile_name('$from'::pg_lsn + 1); SELECT pg_walfile_name('$to'::pg_lsn - 1)});
cmp_ok(hex(substr($last, 8)), '>', hex(substr($first, 8)), 'several segments');
my $dir = $node->data_dir . '/pg_wal';
$node->stop;

sub run_dump
{
	my ($name, @args) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ $node->installed_command($name), @args ], '>', \$out, '2>', \$err);
	return ($out, $err);
}
# LSNs of 1/A3 are 1/000000A3 here
sub short { my ($lsn) = @_; my ($h, $l) = split m{/}, $lsn; return sprintf('%X/%X', hex $h, hex $l) }

my @args = ('-p', $dir, '-s', $from, '-e', $to, $first, $last);
my ($ours, $err) = run_dump('zheap-waldump', @args);
is($err, '', 'no complaint');
my (%seen, %kind, $wrong);
for my $line (grep { /^rmgr: zheap / } split /\n/, $ours)
{
	my ($lsn, $name, $rest) = $line =~ m{lsn: ([0-9A-F/]+), prev [0-9A-F/]+, desc: (\S+) (.*)$} or $wrong //= $line;
	$rest =~ s/,? blkref #.*//;
	my $there = $inspected{ short($lsn) } // [ '', '' ];
	$seen{ short($lsn) } = 1;
	$kind{$name}++;
	$wrong //= "$line\nbut pg_walinspect: $there->[0] $there->[1]" if $there->[0] ne $name || $there->[1] ne $rest;
}
is($wrong, undef, 'each record as in pg_walinspect');
is(scalar keys %seen, scalar keys %inspected, 'and all of them: ' . keys %inspected);
ok($kind{$_}, "$_ is among them: " . ($kind{$_} // 0)) for qw(INSERT UPDATE MOVE DELETE LOCK DELTA UNDO_CONTROL UNDO_SWITCH UNDO_DISCARD UNDO_APPLIED);
unlike($ours, qr/custom151|could not be read|malformed/, 'nothing is left');

# what isn't ours is as it was
my ($plain) = run_dump('pg_waldump', @args);
my $others = sub { join "\n", grep { !/^rmgr: (zheap|custom151) / } split /\n/, $_[0] };
is($others->($ours), $others->($plain), 'other records are as pg_waldump has them');
like($others->($ours), qr/^rmgr: Heap .*INSERT/m, "heap's are among them");

# the other ways to say where WAL is, and other options
my $count = grep { /^rmgr: zheap/ } split /\n/, $ours;
is(scalar(grep { /^rmgr: zheap/ } split /\n/, (run_dump('zheap-waldump', '-r', 'zheap', '-s', $from, '-e', $to, "$dir/$first", $last))[0]), $count, 'a folder in the name, records of zheap only');
{
	local $ENV{PGDATA} = $node->data_dir;
	my ($out) = run_dump('zheap-waldump', "--start=$from", "--end=$to", '--rmgr=zheap', '--limit=3');
	is(scalar(grep { /^rmgr: zheap .*desc: (?!could)/ } split /\n/, $out), 3, 'PGDATA, long options, a limit');
}
my ($stats) = run_dump('zheap-waldump', '--stats=record', @args);
like($stats, qr/^zheap\/UPDATE +\d+ \(/m, 'statistics by name') or diag($stats);
unlike($stats, qr/custom151/, 'of all');
like((run_dump('zheap-waldump', '-z', @args))[0], qr/^zheap +\d+ \(/m, 'statistics by manager');

# a damaged file: pg_waldump's error, and its exit status
my ($out, $status) = ('', 0);
IPC::Run::run([ $node->installed_command('zheap-waldump'), '-p', $dir, '-s', 'F/0', '-e', 'F/100' ], '>', \$out, '2>', \$err);
isnt($? >> 8, 0, 'WAL that is not there is an error');
like($err, qr/pg_waldump/, 'which pg_waldump names');
done_testing();
