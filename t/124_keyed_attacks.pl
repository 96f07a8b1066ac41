# Indexed columns changed in place, and sequences that would lose or double rows:
# dead and old entries beside live ones of the same row; entries that come to life
# again beside their deletion by nbtree, VACUUM or a scan; all-visible pages;
# indexes built and dropped concurrently; spilled rows and TIDs used again; pages
# that an older library has to refuse; a row that changes without pause.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('attacks', conf => q{
autovacuum = off
zheap.update_indexed_in_place = on
});
$node->start;
sub one { return $node->safe_psql('postgres', $_[0]) }
one(q{
CREATE EXTENSION zheap_am;
CREATE TABLE tick (n int);
} . keyed_allow() . q{
-- one transaction for each change
CREATE PROCEDURE walk(t regclass, who int, first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first..last LOOP
		EXECUTE format('UPDATE %s SET k = %s WHERE id = %s', t, i, who);
		COMMIT;
	END LOOP;
END $$;
});

# a table with so many rows, k by an expression, an index that was built at last
sub new_table
{
	my ($name, $rows, $key) = @_;
	one("CREATE TABLE $name (id int PRIMARY KEY, k int, v text) USING zheap;
		INSERT INTO $name SELECT g, $key, '' FROM generate_series(1, $rows) g;
		CREATE INDEX ${name}_k ON $name (k)");
	one("CALL keyed_allow('$name')");
	return;
}

# index scans in both directions, and a bitmap scan, show what a sequential one does
my $digest = q{SELECT count(*), count(DISTINCT id), sum(k), sum(id::bigint * k) FROM (SELECT id, k FROM %s WHERE k > -1000000 ORDER BY k %s OFFSET 0) s;};
sub scans_agree
{
	my ($table, $what, $ask) = @_;
	$ask //= \&one;
	my $seq = $ask->('RESET enable_seqscan; RESET enable_sort; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; ' . sprintf($digest, $table, ''));
	my $set = 'SET enable_seqscan = off; ';
	my $index = $ask->($set . 'SET enable_indexscan = on; SET enable_sort = off; SET enable_bitmapscan = off; ' . sprintf($digest, $table, '') . sprintf($digest, $table, 'DESC'));
	my $bitmap = $ask->($set . 'RESET enable_sort; SET enable_indexscan = off; SET enable_bitmapscan = on; ' . sprintf($digest, $table, ''));
	return is("$index\n$bitmap", "$seq\n$seq\n$seq", "scans agree: $what");
}

# Marks go when snapshots are behind the stamp: VACUUM until it is so.
sub vacuum_until
{
	my ($table, $condition, $what) = @_;
	my $is;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		one("VACUUM $table");
		one('INSERT INTO tick VALUES (1)');
		$is = one("SELECT $condition");
		last if $is eq 't';
		select undef, undef, undef, 0.1;
	}
	return is($is, 't', $what);
}
sub flags { return "zheap_page_flags('$_[0]', 0)" }

# a session in a transaction, and its end
sub begun { my ($sql) = @_; my $s = session($node); ask($s, "BEGIN; $sql"); return $s }
sub ended { my ($s) = @_; ask($s, 'COMMIT'); finish_session($s); return }

# --- dead, old and live entries of the same rows on one leaf, in posting lists
new_table('p', 200, 'CASE WHEN g <= 100 THEN 5 ELSE 6 END');
one('UPDATE p SET k = 6 WHERE id <= 100 AND id % 10 = 0; DELETE FROM p WHERE id <= 100 AND id % 10 = 1');
my $count = q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM p WHERE k = 5; SELECT count(v) FROM p WHERE k = 6;};
is(one($count x 70), join("\n", ("80\n110") x 70), 'old and dead entries are looked at again and again');
one('DELETE FROM p WHERE id IN (10, 20, 30)');
is(one($count x 70), join("\n", ("80\n107") x 70), 'dead rows with two entries');
one('UPDATE p SET k = 11 - k WHERE id % 10 IN (0, 2)');
is(one($count x 70), join("\n", ("97\n90") x 70), 'and others that come back to their old key');
scans_agree('p', 'posting lists');
check_tables($node, 'after posting lists');

# --- an entry comes to life again while others delete entries of its leaf
SKIP: {
	skip 'the server has no assertions', 1 if one('SHOW debug_assertions') ne 'on';
	for my $end (qw(COMMIT ROLLBACK))
	{
		new_table('q', 50, 'g * 100000');
		one('UPDATE q SET k = 1000 WHERE id = 1');
		one('UPDATE q SET k = 1 WHERE id = 1');
		# most of a leaf, which nobody needs, nor has a snapshot of
		one(q{CALL walk('q', 3, 1001, 1300)});
		my $xid = one('SELECT txid_current()');
		ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE age(backend_xmin) > age('$xid'::xid))"), 'no snapshot is older');
		my $s = session($node);
		my $pid = ask($s, 'SELECT pg_backend_pid()');
		ask($s, 'BEGIN');
		order_point($node, 'entry', 'wait', $pid);
		send_sql($s, 'UPDATE q SET k = 1000 WHERE id = 1;');
		ok(wait_at_point($node, 'entry'), 'a row has changed, its entry is not looked for yet');
		one(q{CALL walk('q', 2, 2001, 2200)});
		is(one(q{SELECT pg_relation_size('q_k') / 8192}), '2', 'entries around were deleted');
		one('VACUUM q');
		leave_point($node, 'entry');
		ask($s, $end);
		finish_session($s);
		is(one(q{SET enable_seqscan = off; SET enable_bitmapscan = off;
			SELECT string_agg(id::text, ' ') FROM q WHERE k = 1000; SELECT string_agg(id::text, ' ') FROM q WHERE k = 1}),
			$end eq 'COMMIT' ? "1\n" : "\n1", "one entry is left, $end");
		scans_agree('q', "revived, $end");
		check_tables($node, "revived, $end");
		one('DROP TABLE q');
	}
}

# --- index scans delete the old entries that they pass, but none that is needed
# (pg_stat_get_xact_tuples_returned: entries that scans of an index have read;
# keyed_allow() leaves some of 2)
sub passes
{
	my ($ask, $table, $range) = @_;
	my $read = "SELECT pg_stat_get_xact_tuples_returned('${table}_k'::regclass);";
	my ($before, $n, $after) = split /\n/, $ask->("$read SELECT count(v) FROM $table WHERE k BETWEEN $range; $read");
	return "$n of " . ($after - $before);
}
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
# the same, by new sessions, until no background process has an old snapshot
sub passes_at_last
{
	my ($wanted, $table, $range, $what) = @_;
	my $passes;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my $s = begun($by_index);
		$passes = passes(sub { ask($s, $_[0]) }, $table, $range);
		ended($s);
		last if $passes eq $wanted;
		select undef, undef, undef, 0.1;
	}
	return is($passes, $wanted, $what);
}
{
	new_table('w', 100, 'g');
	my $old = begun("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; $by_index TABLE tick LIMIT 1");
	one('UPDATE w SET k = k + 1000 WHERE id BETWEEN 11 AND 40');
	my $new = begun($by_index);
	my $as_new = sub { ask($new, $_[0]) };
	is(passes($as_new, 'w', '11 AND 40'), '0 of 30', "old entries that a snapshot needs") for 1 .. 2;
	is(passes(sub { ask($old, $_[0]) }, 'w', '11 AND 40'), '30 of 30', 'it finds the rows by them');
	ended($old);
	ended($new);
	one('INSERT INTO tick VALUES (1)');
	passes_at_last('0 of 0', 'w', '11 AND 40', 'scans have deleted what nobody needs any more');
	passes_at_last('30 of 30', 'w', '1011 AND 1040', 'and no other');
	scans_agree('w', 'after scans that delete');
	check_tables($node, 'after scans that delete');
	one('DROP TABLE w');
}
# what a scan has passed is wanted again before it deletes: the rows get their old
# keys back, for good or not, or others get their TIDs and keys
for my $end ('COMMIT', 'ROLLBACK', 'TIDs used again')
{
	new_table('w', 100, 'g');
	one('UPDATE w SET k = k + 1000 WHERE id BETWEEN 11 AND 40');
	one('DELETE FROM w WHERE id BETWEEN 11 AND 40') if $end =~ /TID/;
	one('INSERT INTO tick VALUES (1)');
	my $reader = begun("$by_index SET enable_sort = off;
		DECLARE c CURSOR FOR SELECT k, v FROM w WHERE k > 10 ORDER BY k");
	is(ask($reader, 'FETCH 1 FROM c'), '41|', "a scan has passed old entries, $end");
	if ($end =~ /TID/)
	{
		vacuum_until('w', q{NOT EXISTS (SELECT FROM zheap_page_items('w', 0) WHERE lp BETWEEN 11 AND 40 AND state <> 'unused')}, 'line pointers are free');
		one(q{INSERT INTO w SELECT g, g, '' FROM generate_series(11, 40) g});
		is(one('SELECT count(*) FROM w WHERE k BETWEEN 11 AND 40 AND ctid BETWEEN $$(0,11)$$ AND $$(0,40)$$'), '30', 'they are used again');
	}
	else
	{
		one("BEGIN; UPDATE w SET k = k - 1000 WHERE id BETWEEN 11 AND 40; $end");
	}
	ended($reader);
	passes_at_last($end eq 'ROLLBACK' ? '0 of 0' : '30 of 30', 'w', '11 AND 40', "only what nobody needs is deleted, $end");
	scans_agree('w', "noted, $end");
	check_tables($node, "noted, $end");
	one('DROP TABLE w');
}

# --- no page with an old entry is all-visible, and the bits come back
new_table('a', 20, 'g');
vacuum_until('a', "'all_visible' = ANY (" . flags('a') . ')', 'all-visible');
one('UPDATE a SET k = 500 WHERE id = 3');
is(one("SELECT 'all_visible' = ANY (f), 'stale' = ANY (f) FROM " . flags('a') . ' f'), 'f|t', 'not with an old entry');
is(one(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM a WHERE k = 3}), '0', 'an index-only scan does not believe it');
scans_agree('a', 'not all-visible');
vacuum_until('a', "'all_visible' = ANY (f) AND NOT 'stale' = ANY (f) FROM " . flags('a') . ' f', 'all-visible again, without marks');
is(one(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM a WHERE k IN (3, 500)}), '1', 'the entry is gone');
check_tables($node, 'all-visible again');

# --- the page's flag comes with an aborted change, stays without the row, goes
sub stale { return one("SELECT 'stale' = ANY (" . flags('a') . ')') }
is(stale(), 'f', 'nothing old');
one('BEGIN; UPDATE a SET k = 501 WHERE id = 3; ROLLBACK');
is(stale(), 't', 'a mark, be it of an aborted change');
one('DELETE FROM a WHERE id = 3');
is(stale(), 't', 'with a deleted row');
vacuum_until('a', "NOT 'stale' = ANY (" . flags('a') . ')', 'marks are gone');

# --- indexes built and dropped concurrently, at each of their waits
new_table('c', 60, 'g');
one('UPDATE c SET k = k + 100 WHERE id % 3 = 0');
my $toggle = 0;
sub toggle
{
	my $what = shift;
	$toggle++;
	one("UPDATE c SET k = k + CASE WHEN k > 100 THEN -100 ELSE 100 END WHERE id % 7 = $toggle % 7 AND id > 2");
	one("BEGIN; UPDATE c SET k = k + 1 WHERE id % 5 = 0; ROLLBACK");
	scans_agree('c', $what);
	return;
}

for my $command ('CREATE INDEX CONCURRENTLY c_new ON c (k, id)', 'REINDEX INDEX CONCURRENTLY c_k', 'REINDEX TABLE CONCURRENTLY c')
{
	my $phase = sub {
		ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_progress_create_index WHERE phase = '$_[0]'"), "$command: $_[0]");
		toggle("$command, $_[0]");
	};
	my $w1 = begun(q{UPDATE c SET v = 'w' WHERE id = 1});
	my $s = session($node);
	send_sql($s, "$command;");
	$phase->('waiting for writers before build');
	my $w2 = begun(q{UPDATE c SET v = 'w' WHERE id = 2});
	ended($w1);
	$phase->('waiting for writers before validation');
	my $old = begun('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; TABLE tick LIMIT 1');
	ended($w2);
	$phase->('waiting for old snapshots');
	scans_agree('c', "$command, an old snapshot", sub { ask($old, $_[0]) });
	ended($old);
	is(ask($s, 'SELECT 1'), '1', "$command is done");
	finish_session($s);
	toggle("$command, done");
	check_tables($node, $command);
}
{
	my ($ret) = $node->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY c_invalid ON c ((k % 2))');
	isnt($ret, 0, 'a unique index is left invalid');
	toggle('beside an index that is neither valid nor ready');
	my $w = begun(q{UPDATE c SET v = 'w' WHERE id = 1});
	my $n = session($node);
	my $pid = ask($n, 'SELECT pg_backend_pid()');
	send_sql($n, 'CREATE INDEX CONCURRENTLY c_ready ON c (k, v);');
	my $waits = sub { $node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_progress_create_index WHERE phase = 'waiting for writers before $_[0]'") };
	$waits->('build');
	my $w2 = begun(q{UPDATE c SET v = 'w' WHERE id = 2});
	ended($w);
	ok($waits->('validation'), 'an index is ready');
	one("SELECT pg_cancel_backend($pid)");
	like(ask($n, 'SELECT 1'), qr/canceling statement/, 'and stays invalid');
	finish_session($n);
	ended($w2);
	is(one(q{SELECT string_agg(indexrelid::regclass || ' ' || indisready, ' ' ORDER BY indexrelid) FROM pg_index WHERE NOT indisvalid}), 'c_invalid false c_ready true', 'both are invalid');
	toggle('beside an index that is ready');
	one('DROP INDEX c_invalid, c_ready');
	toggle('without it');
	my $r = begun('SELECT count(*) FROM c');
	my $s = session($node);
	send_sql($s, 'DROP INDEX CONCURRENTLY c_k;');
	ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'DROP INDEX CONC%' AND wait_event_type = 'Lock'}), 'DROP INDEX waits');
	toggle('beside DROP INDEX CONCURRENTLY');
	ended($r);
	is(ask($s, 'SELECT 1'), '1', 'it is done');
	finish_session($s);
	toggle('after DROP INDEX CONCURRENTLY');
	check_tables($node, 'after DROP INDEX CONCURRENTLY');
}

# --- rows that end and are spilled, seen by an old snapshot through both keys
new_table('s', 40, 'g');
one(q{UPDATE s SET v = repeat('v', 150)});
{
	my $old = begun('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; TABLE tick LIMIT 1');
	one('UPDATE s SET k = k + 1000 WHERE id <= 20');
	my $later = begun('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; TABLE tick LIMIT 1');
	one('DELETE FROM s WHERE id <= 20');
	one(q{UPDATE s SET v = repeat('s', 300) WHERE id > 20});
	one(q{INSERT INTO s SELECT g, g, repeat('t', 300) FROM generate_series(101, 160) g});
	cmp_ok(one(q{SELECT count(*) FROM generate_series(0, pg_relation_size('s') / 8192 - 1) b, zheap_page_items('s', b) WHERE state = 'spilled'}), '>', 0, 'rows are spilled');
	for my $vacuumed ('', ', vacuumed')
	{
		scans_agree('s', "the oldest snapshot$vacuumed", sub { ask($old, $_[0]) });
		scans_agree('s', "a later one$vacuumed", sub { ask($later, $_[0]) });
		scans_agree('s', "a new one$vacuumed");
		my $keys = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = on; SELECT count(v) FROM s WHERE k BETWEEN 1 AND 20; SELECT count(v) FROM s WHERE k BETWEEN 1001 AND 1020';
		is(ask($old, $keys), "20\n0", "old keys$vacuumed");
		is(ask($later, $keys), "0\n20", "new keys$vacuumed");
		is(one($keys), "0\n0", "none$vacuumed");
		one('VACUUM s');
	}
	ended($_) for $old, $later;
	one('VACUUM s');
	one(q{INSERT INTO s SELECT g, 2000 + g, '' FROM generate_series(1, 20) g});
	is(one(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM s WHERE k BETWEEN 1 AND 20 OR k BETWEEN 1001 AND 1020}), '0', 'TIDs are used again');
	scans_agree('s', 'TIDs used again');
	check_tables($node, 'TIDs used again');
}

# --- a row that changes without pause leaves few entries
new_table('h', 10, 'g');
my $pages = q{SELECT pg_relation_size('h_k') / 8192};
my ($next, $more) = (1001);
for (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	# but as long as a background process has a snapshot
	my $before = one($pages);
	one(sprintf q{CALL walk('h', 5, %d, %d)}, $next, $next + 4999);
	$next += 5000;
	$more = one($pages) - $before;
	last if $more < 5;
}
cmp_ok($more, '<', 5, 'pages that the index grows by 5,000 keys of a row');
is(one(q{SELECT pg_relation_size('h') / 8192}), '1', 'the table does not');
scans_agree('h', 'a row that changed without pause');
check_tables($node, 'a row that changed without pause');

$node->stop;
log_is_clean($node, qr/could not create unique index/);
done_testing();
