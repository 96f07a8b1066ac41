# DDL on tables with rollbacks that nobody has done yet: no row is lost or
# comes back, nothing fails or waits that wouldn't on heap.  A heap twin of each
# table gets the same.  The rollbacks are left behind in three ways: ROLLBACK,
# ROLLBACK PREPARED, a crash; then the server is killed once more before they
# are done.  All the time a prepared transaction is open elsewhere, so that
# nothing is old enough to be forgotten.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('ddl', conf => q{
autovacuum = off
zheap.rollback_foreground_size = 0
allow_in_place_tablespaces = on
lock_timeout = 20s
fsync = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLESPACE other LOCATION '';
CREATE SCHEMA other;
CREATE TABLE elsewhere (id int PRIMARY KEY) USING zheap;
INSERT INTO elsewhere VALUES (1), (2);
});

# What is done to a table; @ is its name.
my @ddl = (
	[ 'nothing', 'SELECT count(*) FROM @' ],
	[ 'truncate', 'TRUNCATE @', 'INSERT INTO @ (id) VALUES (1)' ],
	[ 'truncate_undone', 'BEGIN; TRUNCATE @; INSERT INTO @ (id) VALUES (1); ROLLBACK' ],
	[ 'vacuum_full', 'VACUUM FULL @' ],
	[ 'cluster', 'CLUSTER @ USING @_k' ],
	[ 'cluster_undone', 'BEGIN; CLUSTER @ USING @_k; UPDATE @ SET k = 0; ROLLBACK' ],
	[ 'cluster_sub', 'BEGIN; SAVEPOINT s; CLUSTER @ USING @_k; UPDATE @ SET k = 0; ROLLBACK TO s; UPDATE @ SET t = \'x\' WHERE id = 9; CLUSTER @ USING @_k; COMMIT' ],
	[ 'rewrite', 'ALTER TABLE @ ALTER k TYPE bigint' ],
	[ 'rewrite_undone', 'BEGIN; ALTER TABLE @ ALTER k TYPE bigint; UPDATE @ SET k = 0; ROLLBACK' ],
	[ 'tablespace', 'ALTER TABLE @ SET TABLESPACE other' ],
	# no insert or move after this one: heap's indexes don't survive that; ours
	# do (sql/tablespace_undone)
	[ 'tablespace_undone', 'BEGIN; ALTER TABLE @ SET TABLESPACE other; DELETE FROM @; ROLLBACK' ],
	[ 'to_heap', 'ALTER TABLE @ SET ACCESS METHOD heap' ],
	[ 'to_heap_undone', 'BEGIN; ALTER TABLE @ SET ACCESS METHOD heap; UPDATE @ SET k = 0; ROLLBACK' ],
	[ 'to_and_fro', 'ALTER TABLE @ SET ACCESS METHOD heap', 'ALTER TABLE @ SET ACCESS METHOD zheap' ],
	[ 'unlogged', 'ALTER TABLE @ SET UNLOGGED', 'ALTER TABLE @ SET LOGGED' ],
	[ 'columns', 'ALTER TABLE @ ADD a int DEFAULT 5, DROP big', 'UPDATE @ SET a = 6 WHERE id % 2 = 0' ],
	[ 'index', 'DROP INDEX @_k', 'CREATE INDEX @_k ON @ (k)', 'REINDEX TABLE @' ],
	[ 'index_concurrently', 'CREATE INDEX CONCURRENTLY @_c ON @ (k, id)', 'REINDEX TABLE CONCURRENTLY @' ],
	[ 'vacuum', 'VACUUM (ANALYZE) @' ],
	[ 'constraint', 'ALTER TABLE @ ADD CHECK (k > -5) NOT VALID', 'ALTER TABLE @ VALIDATE CONSTRAINT @_k_check', 'ALTER TABLE @ ALTER k SET NOT NULL' ],
	[ 'renamed', 'ALTER TABLE @ SET SCHEMA other', 'ALTER TABLE other.@ SET SCHEMA public' ],
	[ 'written', 'UPDATE @ SET t = \'again\', big = NULL WHERE id % 3 = 0', 'DELETE FROM @ WHERE id % 5 = 0', 'INSERT INTO @ SELECT g, g FROM generate_series(300, 330) g' ],
	[ 'created_again', 'DROP TABLE @', 'CREATE TABLE @ (id int, k int)', 'INSERT INTO @ VALUES (1, 1)' ],
	[ 'dropped', 'DROP TABLE @' ]);
my @names = map { $_->[0] } @ddl;

sub sql_for_all
{
	my ($sql) = @_;
	return join '', map { my $n = $_; map { (my $s = $sql) =~ s/\@/$_$n/g; $s } 'z_', 'h_' } @names;
}

# What the aborted transactions do to each table.
my $never = q{
UPDATE @ SET t = 'never' WHERE id % 2 = 0;
SAVEPOINT a;
UPDATE @ SET k = k + 100, big = repeat('n', 3000) WHERE id % 3 = 0;
DELETE FROM @ WHERE id % 7 = 0;
RELEASE a;
INSERT INTO @ SELECT g, g, 'never', repeat('n', 2500) FROM generate_series(201, 220) g;
UPDATE @ SET t = repeat('never', 100) WHERE id % 5 = 0;
};

sub digests
{
	my ($am) = @_;
	return $node->safe_psql('postgres', join "\nUNION ALL\n", map {
		"SELECT '$_', count(*), sum(hashtextextended(t::text, 0)::numeric) FROM ${am}_$_ t"
	} grep { $_ ne 'dropped' } @names);
}

sub same_as_heap
{
	my ($what) = @_;
	is(digests('z'), digests('h'), "same as heap: $what");
}

sub restart_killed
{
	my ($what) = @_;
	kill_server($node);
	ok(start_after_kill($node), "start after a kill: $what");
}

for my $mode ('rollback', 'rollback prepared', 'crash')
{
	(my $gid = $mode) =~ s/ /_/;
	$node->safe_psql('postgres', "BEGIN; UPDATE elsewhere SET id = id + 10; PREPARE TRANSACTION 'open_$gid'");
	for my $am ('z', 'h')
	{
		my $using = $am eq 'z' ? 'zheap' : 'heap';
		$node->safe_psql('postgres', join "\n", map { qq{
CREATE TABLE ${am}_$_ (id int, k int, t text, big text) USING $using;
CREATE INDEX ${am}_${_}_k ON ${am}_$_ (k);
ALTER TABLE ${am}_$_ ALTER big SET STORAGE EXTERNAL;
INSERT INTO ${am}_$_ SELECT g, g % 20, 'row ' || g, CASE WHEN g % 20 = 0 THEN repeat('b', 3000) END
	FROM generate_series(1, 200) g;
DELETE FROM ${am}_$_ WHERE id % 11 = 0;
UPDATE ${am}_$_ SET t = t || '.' WHERE id % 4 = 0;} } @names);
	}
	my $before = digests('h');
	set_conf($node, 'zheap.rollback_paused' => 'on');

	# a subtransaction of a committed transaction, then a whole one
	$node->safe_psql('postgres', sql_for_all(
			"BEGIN; UPDATE @ SET k = k WHERE id = 1; SAVEPOINT z; $never ROLLBACK TO z; COMMIT;"));
	my $s;
	if ($mode eq 'crash')
	{
		$s = session($node);
		is(ask($s, 'BEGIN;' . sql_for_all($never)), '', 'a transaction');
		restart_killed('in the transaction');
		finish_session($s);
	}
	elsif ($mode eq 'rollback')
	{
		$node->safe_psql('postgres', 'BEGIN;' . sql_for_all($never) . 'ROLLBACK');
	}
	else
	{
		$node->safe_psql('postgres', 'BEGIN;' . sql_for_all($never) . "PREPARE TRANSACTION 'never'");
		$node->restart;
		$node->safe_psql('postgres', "ROLLBACK PREPARED 'never'");
	}
	is(digests('z'), $before, "rolled back in all eyes: $mode");
	cmp_ok($node->safe_psql('postgres',
			q{SELECT count(*) FROM zheap_page_slots('z_nothing', 0) WHERE status = 'aborted'}),
		'>', 0, 'but not on the pages');

	# DDL, while the rollbacks wait
	for my $ddl (@ddl)
	{
		my ($name, @sql) = @$ddl;
		for my $sql (@sql)
		{
			my @answer;
			for my $am ('z', 'h')
			{
				(my $own = $sql) =~ s/\@/${am}_$name/g;
				$own =~ s/METHOD zheap/METHOD heap/ if $am eq 'h';
				$own =~ s/(CREATE TABLE \S+ \(.*\))/$1 USING zheap/ if $am eq 'z';
				my ($rc, $out, $err) = $node->psql('postgres', $own, on_error_stop => 0);
				$err =~ s/\b[zh]_/x_/g;
				push @answer, "$out $err";
			}
			is($answer[0], $answer[1], "$mode, $name: $sql");
		}
	}
	same_as_heap("$mode, after DDL");
	restart_killed('with DDL done and rollbacks not');
	same_as_heap("$mode, after DDL and a crash");

	# and now roll back, killed in the middle once more
	set_conf($node, 'zheap.rollback_paused' => 'off');
	same_as_heap("$mode, while it is being rolled back");
	restart_killed('in or after the rollback');
	ok($node->poll_query_until('postgres', q{
SELECT count(*) = 0 FROM pg_class c JOIN pg_am a ON a.oid = relam,
	generate_series(0, pg_relation_size(c.oid) / 8192 - 1) b, zheap_page_slots(c.oid, b) p
	WHERE amname = 'zheap' AND status = 'aborted'}), 'no aborted change on any page');
	same_as_heap("$mode, rolled back");
	check_tables($node, "$mode, rolled back");
	$node->safe_psql('postgres', $mode eq 'rollback' ? "COMMIT PREPARED 'open_$gid'" : "ROLLBACK PREPARED 'open_$gid'");
	undo_quiet($node, $mode);
	same_as_heap("$mode, undo gone");
	$node->safe_psql('postgres', sql_for_all('DROP TABLE IF EXISTS @;'));
}
is($node->safe_psql('postgres', 'SELECT id FROM elsewhere ORDER BY id'), "11\n12", 'the prepared ones elsewhere');

# The first command of a pipeline doesn't know that others follow: the indexes
# of a table that it moves aren't rebuilt, and no row can be added to it.  They
# are rebuilt by a later command.
$node->safe_psql('postgres', q{
CREATE TABLE pipe (id int PRIMARY KEY, k int) USING zheap; INSERT INTO pipe VALUES (1, 1), (2, 2);
CREATE TABLE pipe_bare (id int) USING zheap});
my $n = 0;
for (
	[ 'an insert', 'ALTER TABLE pipe SET TABLESPACE other; INSERT INTO pipe VALUES (3, 3)', 1 ],
	[ 'a move', 'ALTER TABLE pipe SET TABLESPACE other; UPDATE pipe SET id = 3 WHERE id = 2', 1 ],
	[ 'an update in place', 'ALTER TABLE pipe SET TABLESPACE other; UPDATE pipe SET k = 3 WHERE id = 2', 0 ],
	[ 'no index', 'ALTER TABLE pipe_bare SET TABLESPACE other; INSERT INTO pipe_bare VALUES (3)', 0 ],
	[ 'a later command', 'SELECT 1; ALTER TABLE pipe SET TABLESPACE pg_default; INSERT INTO pipe VALUES (4, 4)', 0 ])
{
	my ($what, $sql, $refused) = @$_;
	my $offset = -s $node->logfile;

	$node->pgbench('-n -t 1 -M extended', $refused ? 2 : 0,
		[$refused ? qr/0\/1/ : qr/1\/1/],
		$refused ? [qr/aborted in command/] : [qr/^$/],
		"$what in a pipeline",
		{ 'pipeline_' . $n++ => "\\startpipeline\n" . ($sql =~ s/; /;\n/gr) . ";\n\\endpipeline\n" });
	# pgbench of 16.4 loses the message
	like(slurp_file($node->logfile, $offset),
		qr/cannot add rows to table "pipe", which this transaction has moved to another tablespace/, "$what is refused")
	  if $refused;
}
is($node->safe_psql('postgres', 'SELECT * FROM pipe ORDER BY id'), "1|1\n2|3\n4|4", 'what pipelines have done');
check_tables($node, 'pipelines');
$node->stop;
log_is_clean($node);
done_testing();
