# Records that are kept for other transactions than their writer (U25).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1, extra => ['--data-checksums']);
$node->append_conf(
	'postgresql.conf', q{
shared_preload_libraries = 'undo_toy'
wal_consistency_checking = 'undo_toy'
max_prepared_transactions = 5
autovacuum = off
zheap.discard_naptime = 50ms
});
$node->start;
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION undo_toy;
CREATE TABLE p (a text);
INSERT INTO p SELECT repeat('x', 700) FROM generate_series(1, 1100);
});

sub ask
{
	return $node->safe_psql('postgres', $_[0]);
}

sub wait_for
{
	ok($node->poll_query_until('postgres', $_[0]), $_[0]);
}

# a transaction that has nothing but an xid, prepared
sub hold
{
	my ($gid) = @_;
	return ask("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION '$gid'");
}

# another one that writes between two of them; kept for the second
sub write_kept
{
	my ($gid, $until_u) = @_;
	my $writer = $node->background_psql('postgres');
	my $fxid = $writer->query_safe('BEGIN; SELECT pg_current_xact_id();');
	# has its undo discarded while the other's is kept
	my $passed = ask('BEGIN; SELECT pg_current_xact_id() ' .
		"FROM toy_write('p', 200, 300, 2); COMMIT;");
	my $later = hold($gid);
	cmp_ok($fxid, '<', $later, 'the writer is older');
	my ($urp) = split /\|/, $writer->query_safe(
		"SELECT urp FROM toy_write('p', 1, 300, 1, $later, $until_u);");
	# the rest of its page, and more
	$writer->query_safe(
		"SELECT toy_write('p', 200, 300, 1, $later, $until_u);");
	$writer->query_safe('COMMIT;');
	$writer->quit;
	return ($fxid, $urp, $later, $passed);
}

# write to each log as many pages as were discarded and may be used again
sub use_pages
{
	my @sessions = map { $node->background_psql('postgres') } 1 .. 6;
	$_->query_safe("BEGIN; SELECT toy_write('p', 1000, 300, 4);") for @sessions;
	$_->query_safe('COMMIT;') for @sessions;
	$_->quit for @sessions;
}

my $right = 'kind 1, offset 1, block 1, 300 bytes, right';
my $drained = q{SELECT NOT toy_has_unapplied(0) AND
	(SELECT count(*) = 0 FROM toy_undo_logs() WHERE tail IS NOT NULL AND
	tail <> head_block)};

# --- until H passes it
my ($writer, $urp, $later, $passed) = write_kept('h', 'false');
wait_for("SELECT h > $passed FROM toy_horizons()");
use_pages();
is(ask("SELECT toy_read_kept('p', $urp, $later, false, 1)"), $right,
	'kept for a later transaction');
is(ask("SELECT toy_read('p', $urp, $writer, 1) IS NULL"), 't',
	'although its writer is below the horizon');
$node->stop('immediate');
$node->start;
is(ask("SELECT toy_read_kept('p', $urp, $later, false, 1)"), $right,
	'after a crash, too');
ask("COMMIT PREPARED 'h'");
wait_for($drained);
is(ask("SELECT toy_read_kept('p', $urp, $later, false, 1) IS NULL"), 't',
	'gone with it');

# --- until U passes it: not while an older one isn't rolled back
ask('ALTER SYSTEM SET zheap.rollback_paused = on');
ask('SELECT pg_reload_conf()');
wait_for("SELECT current_setting('zheap.rollback_paused') = 'on'");
# in a log of its own; more pages than the session itself rolls back
my $session = $node->background_psql('postgres');
my $aborted = $session->query_safe(q{BEGIN; SELECT max(writer)
	FROM generate_series(0, 99) g, toy_write('p', 5, 50, g);});
($writer, $urp, $later, $passed) = write_kept('u', 'true');
$session->query_safe('ROLLBACK;');
$session->quit;
ask("COMMIT PREPARED 'u'");
wait_for("SELECT h > $later FROM toy_horizons()");
is(ask("SELECT u <= $aborted FROM toy_horizons()"), 't', 'U is held back');
use_pages();
is(ask("SELECT toy_read_kept('p', $urp, $later, true, 1)"), $right,
	'kept although H has passed');
$node->stop('immediate');
$node->start;
is(ask("SELECT toy_read_kept('p', $urp, $later, true, 1)"), $right,
	'after a crash, too');
ask('ALTER SYSTEM RESET zheap.rollback_paused');
ask('SELECT pg_reload_conf()');
wait_for("SELECT u > $later FROM toy_horizons()");
# nobody else writes: without a raise of H for its sake U would stand still
wait_for($drained);
is(ask("SELECT toy_read_kept('p', $urp, $later, true, 1) IS NULL"), 't',
	'gone when U has passed');

# --- the same where nothing is in the way; many pages, some kept
($writer, $urp, $later, $passed) = write_kept('many', 'true');
for my $i (1 .. 20)
{
	ask("SELECT toy_write('p', 100, 300, 3)");
	ask("SELECT toy_write('p', 1, 300, 3, $later, true)");
}
is(ask("SELECT toy_read_kept('p', $urp, $later, true, 1)"), $right, 'kept');
ask("COMMIT PREPARED 'many'");
wait_for($drained);

# --- redo of all this was the same, and the standby becomes a primary
$node->wait_for_catchup($standby);
$standby->promote;
is( $standby->safe_psql('postgres',
		"SELECT count(*) FROM toy_write('p', 10, 100, 1, 0)"),
	'1', 'the promoted standby writes');
$standby->stop;
$node->stop;
done_testing();
