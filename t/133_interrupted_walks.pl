# Walks through a long aborted history where the page can't be rolled back: by
# readers of a standby, by a check for uniqueness, which has an index page locked, and
# by zheap_check().  All can be cancelled in the middle, and go on after interrupts that
# cancel nothing.  Needs a server with assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $n = 6000;
my $node = zheap_node('walks', allows_streaming => 1, conf => q{
autovacuum = off
fsync = off
zheap.max_rollback_workers = 0
zheap.rollback_foreground_size = 0
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', qq{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int PRIMARY KEY, b int, c text) USING zheap;
INSERT INTO t SELECT g, 0, repeat('c', 500) FROM generate_series(1, 40) g;
BEGIN;
DO \$\$ BEGIN FOR i IN 1..$n LOOP UPDATE t SET b = i WHERE a = 1; END LOOP; END \$\$;
ROLLBACK;});
my $standby = zheap_standby($node);
$node->wait_for_catchup($standby);

# records that are still to be taken back
sub left
{
	return $node->safe_psql('postgres', q{
SELECT count(*) FROM zheap_page_slots('t', 0) s, zheap_undo_records('t', 0, s.id)
WHERE s.status = 'aborted'});
}

my $pending = left();
cmp_ok($pending, '>=', $n, 'the history is long');

sub interrupt
{
	my ($at, $name, $settings, $sql, $answer) = @_;

	interrupt_walk($at, $name, $answer,
		start => sub { ask($_[0], $settings) },
		go => sub { send_sql($_[0], $sql) },
		end => sub { is(left(), $pending, '... nothing was rolled back') });
}

my $no_index = 'SET enable_indexscan = off; SET enable_bitmapscan = off;';
my $index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $bitmap = 'SET enable_seqscan = off; SET enable_indexscan = off;';

for my $case ([ 'a sequential scan', $no_index ], [ 'an index scan', $index ],
	[ 'a bitmap scan', $bitmap ])
{
	my ($name, $settings) = @$case;

	interrupt($standby, "$name of a standby", $settings,
		'SELECT b FROM t WHERE a = 1', qr/^0$/m);
}
interrupt($node, 'a check for uniqueness', '',
	'INSERT INTO t VALUES (1, 1, repeat($$x$$, 500))', qr/duplicate key value/);
interrupt($node, 'zheap_check()', '', q{SELECT count(*) FROM zheap_check('t', indexes => false)}, qr/^0$/m);

is($node->safe_psql('postgres', 'SELECT count(*), sum(b) FROM t'), '40|0', 'rows of the primary');
is($standby->safe_psql('postgres', 'SELECT count(*), sum(b) FROM t'), '40|0', 'rows of the standby');
$node->safe_psql('postgres', 'ALTER SYSTEM SET zheap.max_rollback_workers = 2; SELECT pg_reload_conf()');
undo_quiet($node, 'at the end');
ok(check_tables($node, 'at the end'), 'tables are sound');
$node->wait_for_catchup($standby);
$standby->stop;
$node->stop;
log_is_clean($node);
log_is_clean($standby);
done_testing();
