# What a subscriber of 18 says of conflicts on a zheap table is what it says of
# its heap twin: the kinds, the counts of pg_stat_subscription_stats, and whose
# row was met, when its writer runs no more and is visible to all.  A subscriber
# of any major that stops at an error goes on once the change is skipped.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $pub = PostgreSQL::Test::Cluster->new('publisher');
$pub->init(allows_streaming => 'logical');
$pub->start;
my $sub = zheap_node('subscriber', conf => "track_commit_timestamp = on\nlog_line_prefix = '%m [%p] %e '\n");
$sub->start;
my $major = int($pub->safe_psql('postgres', 'SHOW server_version_num') / 10000);
my $conn = $pub->connstr . ' dbname=postgres';
$sub->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# One subscription a table, so that each has counts of its own.  Few rows fit on
# a page: the page of a zheap table names a writer that is visible to all until
# others want the room for their own names.
my @am = ('heap', 'zheap');
for my $am (@am)
{
	my $columns = '(id int PRIMARY KEY, u int UNIQUE, v int, t char(3000))';
	my $plain = "ALTER TABLE t_$am ALTER t SET STORAGE PLAIN";
	$pub->safe_psql('postgres', "CREATE TABLE t_$am $columns; $plain; INSERT INTO t_$am SELECT g, g, 0, 't' FROM generate_series(1, 40) g; CREATE PUBLICATION p_$am FOR TABLE t_$am");
	$sub->safe_psql('postgres', "CREATE TABLE t_$am $columns USING $am; $plain");
	$sub->safe_psql('postgres', "CREATE SUBSCRIPTION s_$am CONNECTION '$conn' PUBLICATION p_$am WITH (disable_on_error)");
	$sub->wait_for_subscription_sync($pub, "s_$am");
}

sub on_both
{
	my ($node, $sql) = @_;
	for my $am (@am)
	{
		$node->safe_psql('postgres', $sql =~ s/\bT\b/t_$am/gr);
	}
}
sub same
{
	my ($what) = @_;
	$pub->wait_for_catchup("s_$_") for @am;
	my ($h, $z) = map { $sub->safe_psql('postgres', "SELECT id, u, v, t::text FROM t_$_ ORDER BY id") } @am;
	is($z, $h, "rows: $what");
}
# all that was written there is visible to all
sub settled
{
	ok($sub->poll_query_until('postgres', 'SELECT pg_zheap_undo_size() = 0 AND u = h FROM zheap_horizons()'), 'writers there are settled');
}

# --- an error: the subscription is disabled, the transaction skipped, and on it goes
on_both($sub, q{INSERT INTO T VALUES (100, 100, 1, 'local')});
my $log = -s $sub->logfile;
on_both($pub, q{INSERT INTO T VALUES (100, 200, 2, 'remote')});
for my $am (@am)
{
	ok($sub->poll_query_until('postgres', "SELECT NOT subenabled FROM pg_subscription WHERE subname = 's_$am'"), "$am: disabled by the error");
	my $lsn;
	for (1 .. 1800)
	{
		($lsn) = slurp_file($sub->logfile, $log) =~ /for replication target relation "public\.t_$am" in transaction \d+, finished at ([0-9A-F]+\/[0-9A-F]+)/ and last;
		select(undef, undef, undef, 0.1);
	}
	ok($lsn, "$am: the log tells which change it was");
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION s_$am SKIP (lsn = '$lsn'); ALTER SUBSCRIPTION s_$am ENABLE");
}
on_both($pub, q{UPDATE T SET v = 3 WHERE id = 1});
same('after an error that was skipped');
is($sub->safe_psql('postgres', "SELECT v, t::text FROM t_zheap WHERE id = 100"), '1|local', 'the change was skipped');
for my $am (@am)
{
	ok($sub->poll_query_until('postgres', "SELECT apply_error_count = 1 FROM pg_stat_subscription_stats WHERE subname = 's_$am'"), "$am: the error was counted");
}

if ($major < 18)
{
	note 'conflicts are told from 18 on';
	goto done;
}

# --- conflicts: what the log says of one, without what differs by chance
my %writer;
sub told
{
	my ($am, $from) = @_;
	my $text = slurp_file($sub->logfile, $from);
	my @found;
	while ($text =~ /conflict detected on relation "public\.t_$am": conflict=(\w+)\n.*?DETAIL:  (.*?)\n(?=\S)/gs)
	{
		my ($kind, $detail) = ($1, $2);
		$detail =~ s/t_$am/T/g;
		$detail =~ s/\b$writer{$am}\b/WRITER/g if $writer{$am};
		# the origin of a copy of the table is gone now, or soon
		$detail =~ s/by (?:a non-existent origin|a different origin "\w+") in transaction \d+/by the copy/g;
		$detail =~ s/at \d{4}-\d\d-\d\d [\d:.+-]+/at TIME/g;
		push @found, "$kind: $detail";
	}
	return join "\n", @found;
}
my $counts = join ', ', map { "confl_$_" } qw(insert_exists update_origin_differs update_exists update_missing delete_origin_differs delete_missing multiple_unique_conflicts);
sub counts { return $sub->safe_psql('postgres', "SELECT $counts FROM pg_stat_subscription_stats WHERE subname = 's_$_[0]'") }

# A local change in a transaction of its own, then a remote one: both are told
# alike; with or without the local writer being settled meanwhile.
sub conflict
{
	my ($what, $local, $remote, $kind, $stops, $wait) = @_;
	my $from = -s $sub->logfile;
	my %before = map { $_ => counts($_) } @am;
	for my $am (@am)
	{
		$writer{$am} = $sub->safe_psql('postgres', 'BEGIN; ' . ($local =~ s/\bT\b/t_$am/gr) . '; SELECT pg_current_xact_id(); COMMIT');
	}
	settled() if $wait;
	on_both($pub, $remote);
	for my $am (@am)
	{
		if ($stops)
		{
			ok($sub->poll_query_until('postgres', "SELECT NOT subenabled FROM pg_subscription WHERE subname = 's_$am'"), "$am: $what: disabled");
			for (1 .. 1800)
			{
				last if slurp_file($sub->logfile, $from) =~ /for replication target relation "public\.t_$am" in transaction \d+, finished at ([0-9A-F]+\/[0-9A-F]+)/;
				select(undef, undef, undef, 0.1);
			}
			my ($lsn) = slurp_file($sub->logfile, $from) =~ /for replication target relation "public\.t_$am" in transaction \d+, finished at ([0-9A-F]+\/[0-9A-F]+)/;
			$sub->safe_psql('postgres', "ALTER SUBSCRIPTION s_$am SKIP (lsn = '$lsn'); ALTER SUBSCRIPTION s_$am ENABLE");
		}
	}
	same($what);
	my ($h, $z) = map { told($_, $from) } @am;
	like($h, qr/^$kind: /m, "$what: told of heap");
	is($z, $h, "$what: the same of zheap");
	for my $am (@am)
	{
		ok($sub->poll_query_until('postgres', "SELECT ($counts)::text <> '(" . ($before{$am} =~ s/\|/,/gr) . ")' FROM pg_stat_subscription_stats WHERE subname = 's_$am'"), "$what: counted, $am");
	}
	is(counts('zheap'), counts('heap'), "$what: counted alike");
}

for my $wait (0, 1)
{
	my $how = $wait ? ', settled' : '';
	my $id = 10 + 10 * $wait;
	conflict("update_origin_differs$how", "UPDATE T SET v = 7 WHERE id = $id", "UPDATE T SET t = 'r' WHERE id = $id", 'update_origin_differs', 0, $wait);
	conflict("update_origin_differs of an insertion$how", "INSERT INTO T VALUES (300 + $id, 300 + $id, 1, 'local')", "INSERT INTO T VALUES (300 + $id, 1300 + $id, 1, 'remote')", 'insert_exists', 1, $wait);
	conflict("moved$how", "UPDATE T SET u = 500 + $id WHERE id = $id + 1", "UPDATE T SET t = 'r' WHERE id = $id + 1", 'update_origin_differs', 0, $wait);
	conflict("delete_origin_differs$how", "UPDATE T SET v = 8 WHERE id = $id + 2", "DELETE FROM T WHERE id = $id + 2", 'delete_origin_differs', 0, $wait);
	conflict("update_missing$how", "DELETE FROM T WHERE id = $id + 3", "UPDATE T SET v = 9 WHERE id = $id + 3", 'update_missing', 0, $wait);
	conflict("delete_missing$how", "DELETE FROM T WHERE id = $id + 4", "DELETE FROM T WHERE id = $id + 4", 'delete_missing', 0, $wait);
	conflict("update_exists$how", "INSERT INTO T VALUES (600 + $id, 700 + $id, 1, 'local')", "UPDATE T SET u = 700 + $id WHERE id = $id + 5", 'update_exists', 1, $wait);
	conflict("multiple_unique_conflicts$how", "INSERT INTO T VALUES (800 + $id, 800 + $id, 1, 'local'), (801 + $id, 801 + $id, 1, 'local')", "INSERT INTO T VALUES (800 + $id, 801 + $id, 2, 'remote')", 'multiple_unique_conflicts', 1, $wait);
}

done:
$sub->safe_psql('postgres', "DROP SUBSCRIPTION s_$_") for @am;
check_tables($sub, 'at the end');
undo_quiet($sub, 'at the end');
$_->stop for $sub, $pub;
log_is_clean($sub);
done_testing();
