# Discard: steady load turns in a small ring; an old snapshot keeps the undo
# it needs, in whatever database it is, and reads its rows through it; after
# its end undo falls to its floor and big logs are cut.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('discard', conf => q{
zheap.discard_naptime = 100ms
zheap.undo_log_rest_size = 2MB
autovacuum = off
shared_buffers = 4MB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE d (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO d SELECT g, 0, repeat('t', 40) FROM generate_series(1, 2000) g;
CREATE DATABASE other;
});
$node->safe_psql('other', 'CREATE EXTENSION zheap_am; CREATE TABLE o (a int) USING zheap; INSERT INTO o VALUES (1)');

my $script = $node->basedir . '/churn.sql';
append_to_file($script, q{
\set k random(1, 2000)
\set n random(1, 20)
BEGIN;
UPDATE d SET c = c + 1, t = repeat(chr(97 + :n), 40) WHERE k BETWEEN :k AND :k + 9;
\if :n = 1
ROLLBACK;
\else
COMMIT;
\endif
});

sub churn
{
	my ($seconds, $clients) = @_;
	my ($out, $err) = ('', '');
	# their ranges overlap: those that deadlock try again
	IPC::Run::run([ $node->installed_command('pgbench'), '-n', '-c', $clients, '-j', 2, '-T', $seconds,
			'--max-tries', 100, '-f', $script, $node->connstr('postgres') ], '>', \$out, '2>', \$err);
	unlike($err, qr/ERROR|PANIC|server closed/, 'load ran without errors');
	return $out =~ /processed: (\d+)/ ? $1 : 0;
}

sub value
{
	return $node->safe_psql('postgres', $_[0]);
}
my $used = q{SELECT coalesce(max(used_blocks), 0) FROM pg_stat_zheap_undo WHERE persistence LIKE 'p%'};
my $written = q{SELECT coalesce(sum(bytes_written), 0) FROM pg_stat_zheap_undo};
my $digest = 'SELECT count(*), sum(c), sum(hashtextextended(d::text, 0)::numeric) FROM d';

note(value(q{SELECT string_agg(u::text, ' ') FROM pg_stat_zheap_undo u}));

# --- steady load: the ring turns over and over
undo_quiet($node, 'at first');
my ($n, $bytes) = (0, 0);
for (1 .. 60)
{
	$n += churn(2, 3);
	$bytes = value($written);
	last if $bytes > 2 * 8192 * value($used);
}
note("$n transactions, $bytes bytes of undo written, a log has at most " . value($used) . ' blocks');
cmp_ok(value($used), '<', 256, 'a log under steady load stays small');
cmp_ok($bytes, '>', 2 * 8192 * value($used), 'the ring was turned') or note(value('TABLE pg_stat_zheap_undo'));
undo_quiet($node, 'after steady load');

# --- an old snapshot in this database, and a younger one in another
my $old = session($node);
my $rows = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
churn(3, 3);
is(ask($old, $digest), $rows, 'old snapshot reads its rows');
my $other = session($node, 'other');
ask($other, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM o');
my $young = session($node);
my $young_rows = ask($young, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
churn(3, 3);
is(ask($old, $digest), $rows, 'still');
is(ask($young, $digest), $young_rows, 'and a younger one its own');
is( ask($old, q{SET enable_seqscan = off; SELECT count(*), sum(c) FROM d WHERE k BETWEEN 100 AND 199}),
	ask($old, q{SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(c) FROM d WHERE k BETWEEN 100 AND 199}),
	'the same by index');
# more than one log may have at rest, however slow the load was
$node->safe_psql('postgres', q{DO $$BEGIN FOR i IN 1 .. 30 LOOP UPDATE d SET t = repeat(chr(97 + i % 20), 40); END LOOP; END$$});
my $peak = value('SELECT pg_zheap_undo_size()');
my $files = value('SELECT pg_zheap_undo_file_size()');
cmp_ok(value($used), '>', 256, 'a log has more than it may have at rest');
cmp_ok($peak, '>', 2_000_000, "undo is kept: $peak bytes");

# --- the younger one keeps what it needs when the older one ends
ask($old, 'COMMIT');
ok($node->poll_query_until('postgres', "SELECT pg_zheap_undo_size() < $peak"), 'part of the undo goes');
is(ask($young, $digest), $young_rows, 'the younger one reads on');
ask($young, 'COMMIT');

# --- a transaction of another database keeps undo by its xid alone
ask($other, 'COMMIT');
ask($other, 'BEGIN; INSERT INTO o VALUES (2)');
$node->safe_psql('postgres', "UPDATE d SET t = repeat('$_', 40)") for 'x', 'y';
my $kept = value('SELECT pg_zheap_undo_size()');
cmp_ok($kept, '>', 100_000, 'a running transaction elsewhere keeps undo');
ask($other, 'COMMIT');

# --- to the floor
ok($node->poll_query_until('postgres', 'SELECT pg_zheap_undo_size() = 0'), 'undo falls to nothing');
ok($node->poll_query_until('postgres', "SELECT pg_zheap_undo_file_size() < $files AND ($used) <= 256"),
	'big logs are cut') or note(value('TABLE pg_stat_zheap_undo'));
note("files: $files bytes at the peak, " . value('SELECT pg_zheap_undo_file_size()') . ' now');
check_tables($node, 'after discard');

# --- cut logs are written again, and after a crash
churn(1, 3);
my $final = value($digest);
kill_server($node);
ok(start_after_kill($node), 'start after a kill');
is(value($digest), $final, 'the same rows');
churn(1, 3);
undo_quiet($node, 'at the end');
check_tables($node, 'at the end');
finish_session($_) for $old, $other, $young;
$node->stop;
log_is_clean($node);
done_testing();
