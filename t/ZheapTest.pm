# What the TAP tests share: nodes with zheap_am preloaded, a server killed as
# a power cut does it, interactive sessions, and the checks after a crash.
package ZheapTest;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(zheap_node init_without_checksums zheap_standby set_conf discard_pass kill_server start_after_kill wait_until_up session ask
  send_sql finish_session check_tables tables_digest undo_quiet log_is_clean
  overwrite content put order_point wait_at_point leave_point interrupt_walk
  wal_position wal_since switch_images keyed_allow needs_assertions $lost);

# what psql says, one or the other, when the server ended the session
our $lost = qr/server closed the connection|connection to server was lost|no connection to the server/;

# A node that preloads the library; options as for init(), conf => text.
sub zheap_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $conf = delete $opt{conf} // '';

	$node->init(extra => ['--data-checksums'], %opt);
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 50ms
max_prepared_transactions = 10
log_autovacuum_min_duration = -1
$conf});
	return $node;
}

# For a test that stops processes at points: the server runs.
sub needs_assertions
{
	my ($node) = @_;
	plan skip_all => 'the server has no assertions'
	  if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
	return;
}

# Where WAL ends, and what pg_waldump says of it since then.
sub wal_position
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
}

sub wal_since
{
	my ($node, $lsn) = @_;
	# both are named, else it may look at a file that is prepared for later
	my @file = split /\n/, $node->safe_psql('postgres', "SELECT pg_walfile_name('$lsn'::pg_lsn + 1); SELECT pg_walfile_name(pg_current_wal_flush_lsn())");
	# it ends with the end of WAL, which it calls an error
	my ($out, $err) = ('', '');
	IPC::Run::run([ $node->installed_command('pg_waldump'), '-s', $lsn, '-p', $node->data_dir . '/pg_wal', @file ], '>', \$out, '2>', \$err);
	return $out;
}

# Turn full_page_writes on or off; true once the checkpointer has said so in WAL.
sub switch_images
{
	my ($node, $to) = @_;
	my $from = wal_position($node);
	$node->append_conf('postgresql.conf', "full_page_writes = $to");
	$node->reload;
	for (1 .. 1800)
	{
		# the checkpointer doesn't flush what it says; a commit does
		$node->safe_psql('postgres', 'SELECT pg_current_xact_id()');
		return 1 if wal_since($node, $from) =~ /FPW_CHANGE.*${\($to eq 'on' ? 'true' : 'false')}/;
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

# SQL of a procedure that returns when keys may change in place in a table, which
# has a row and a soft index on its second column.
sub keyed_allow
{
	return q{
CREATE PROCEDURE keyed_allow(t regclass) LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		BEGIN
			EXECUTE format('UPDATE %1$s SET %2$I = %2$I + 1 WHERE ctid = (SELECT ctid FROM %1$s LIMIT 1)', t,
				(SELECT attname FROM pg_attribute WHERE attrelid = t AND attnum = 2));
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
		END;
		EXIT WHEN 'keys_allowed' = ANY (zheap_page_flags(t, 0));
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
};
}

# initdb, so that damage gets past the buffer manager; since 18 it has to be said.
sub init_without_checksums
{
	my ($node) = @_;
	return $node->init($node->pg_version >= 18 ? (extra => ['--no-data-checksums']) : ());
}

# A standby of a running node, started.  Options: name; backup => one that was
# taken before (else one is taken now); slot => name of a replication slot to be
# made; feedback => 1: its snapshots hold the horizon of the node and are never
# cancelled; conf => text.
sub zheap_standby
{
	my ($node, %opt) = @_;
	my $name = $opt{name} // 'standby';
	my $standby = PostgreSQL::Test::Cluster->new($name);
	my $conf = $opt{conf} // '';

	$conf .= "
hot_standby_feedback = on
wal_receiver_status_interval = 1s
max_standby_streaming_delay = -1
" if $opt{feedback};
	if (defined $opt{slot})
	{
		$node->safe_psql('postgres', "SELECT pg_create_physical_replication_slot('$opt{slot}')");
		$conf .= "\nprimary_slot_name = '$opt{slot}'\n";
	}
	$node->backup("for_$name") if !defined $opt{backup};
	$standby->init_from_backup($node, $opt{backup} // "for_$name", has_streaming => 1);
	$standby->append_conf('postgresql.conf', $conf);
	$standby->start;
	return $standby;
}

# Change settings of a running server; at the end new sessions have them, and
# the launcher, too, if there is one.
sub set_conf
{
	my ($node, %value) = @_;
	$node->append_conf('postgresql.conf',
		join('', map { "$_ = '$value{$_}'\n" } sort keys %value));
	my $begin = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
	$node->reload;
	$node->poll_query_until('postgres', "SELECT pg_conf_load_time() > '$begin'");
	return $node->safe_psql('postgres', 'SELECT pg_sleep(0.2)')
	  if $node->safe_psql('postgres', q{SELECT to_regclass('pg_stat_zheap_undo_totals') IS NULL OR pg_is_in_recovery()}) eq 't';
	discard_pass($node);
	return;
}

# A whole pass of the launcher: the first to end may have begun before.
sub discard_pass
{
	my ($node, $db) = @_;
	$db //= 'postgres';
	for (1 .. 2)
	{
		my $last = $node->safe_psql($db, 'SELECT last_discard_pass FROM pg_stat_zheap_undo_totals');
		$node->reload;
		$node->poll_query_until($db, "SELECT coalesce(last_discard_pass::text, '') <> '$last' FROM pg_stat_zheap_undo_totals");
	}
	return;
}

sub children_of
{
	my ($pid) = @_;
	my @found;
	for my $file (glob '/proc/[0-9]*/stat')
	{
		open(my $fh, '<', $file) or next;
		my $line = <$fh> // '';
		close $fh;
		push @found, $1 if $line =~ /^(\d+) \(.*\) \S (\d+) / && $2 == $pid;
	}
	return @found;
}

sub process_state
{
	my ($pid) = @_;
	open(my $fh, '<', "/proc/$pid/stat") or return '';
	my $line = <$fh> // '';
	return $line =~ /^\d+ \(.*\) (\S)/ ? $1 : '';
}

# SIGKILL to the postmaster and all its children; returns when all are gone.
# Where nobody reaps the postmaster its pid still looks alive, so that its
# lock files have to be taken away.
sub kill_server
{
	my ($node) = @_;
	my $file = $node->data_dir . '/postmaster.pid';
	my ($pid) = split /\n/, slurp_file($file);
	kill 'STOP', $pid;
	my @children = children_of($pid);
	# an orphan could fail an assertion of core's before it is hit
	kill 'KILL', @children;
	$node->kill9;
	for (1 .. 300)
	{
		last if !grep { process_state($_) !~ /^Z?$/ } $pid, @children;
		select(undef, undef, undef, 0.1);
	}
	select(undef, undef, undef, 0.1);
	unlink $file, $node->host . '/.s.PGSQL.' . $node->port . '.lock'
	  if process_state($pid) eq 'Z';
	return;
}

sub start_after_kill
{
	my ($node) = @_;
	for (1 .. 20)
	{
		return 1 if $node->start(fail_ok => 1);
		last
		  if slurp_file($node->logfile) !~
		  /(?:lock file|shared memory block).*(?:already exists|still in use)[^\n]*\n[^\n]*\n?(?:[^\n]*\n)?\z/;
		select(undef, undef, undef, 0.5);
	}
	return 0;
}

# A server that restarts after a crash is back.  (While it recovers, psql ends
# before it has read its input, which IPC::Run may take for an error.)
sub wait_until_up
{
	my ($node) = @_;
	for (1 .. 300)
	{
		return 1 if eval { $node->safe_psql('postgres', 'SELECT 1') eq '1' };
		select(undef, undef, undef, 0.2);
	}
	return 0;
}

# An interactive session; ask() returns the output of SQL.  Errors come back
# as output too, that of a lost connection included.  Each question has the full
# time limit, however old the session is.
sub session
{
	my ($node, $db) = @_;
	my $s = { in => '', out => '', err => '', n => 0,
		timer => IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default) };
	$s->{h} = IPC::Run::start(
		[ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr($db // 'postgres') ],
		'<', \$s->{in}, '>', \$s->{out}, '2>', \$s->{err}, $s->{timer});
	return $s;
}

sub ask
{
	my ($s, $sql) = @_;
	my $mark = 'done-' . ++$s->{n};

	$s->{out} = $s->{err} = '';
	$s->{in} .= "$sql\n;\n\\echo $mark\n\\warn $mark\n";
	$s->{timer}->start;
	until ($s->{out} =~ /$mark\n/ && $s->{err} =~ /$mark\n/)
	{
		next if eval { $s->{h}->pump; 1 };
		die "no answer to: $sql" if $s->{timer}->is_expired;
		# psql ends when its connection is cut
		last;
	}
	(my $result = $s->{err} . $s->{out}) =~ s/$mark\n//g;
	chomp $result;
	return $result;
}

# The same without waiting for an answer.
sub send_sql
{
	my ($s, $sql) = @_;
	$s->{in} .= "$sql\n;\n";
	$s->{timer}->start;
	$s->{h}->pump_nb;
}

# Close it; after a kill of the server it doesn't matter how.
sub finish_session
{
	my ($s) = @_;
	$s->{in} .= "\\q\n";
	$s->{timer}->start;
	eval { $s->{h}->finish; };
	eval { $s->{h}->kill_kill; } if $@;
}

# Page checks and indexes of all zheap tables of a database.  Prints what is
# wrong, returns whether nothing is.
sub check_tables
{
	my ($node, $what, $db) = @_;
	my $bad = $node->safe_psql($db // 'postgres', q{
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE OR REPLACE FUNCTION pg_temp.index_fault(i oid) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM bt_index_check(i, true);
	RETURN NULL;
EXCEPTION WHEN others THEN
	RETURN sqlerrm;
END $$;
SELECT t.oid::regclass, c.* FROM pg_class t JOIN pg_am a ON a.oid = t.relam,
	LATERAL zheap_check(t.oid) c
	WHERE a.amname = 'zheap' AND t.relkind IN ('r', 'm', 't') LIMIT 20;
SELECT i.indexrelid::regclass, f FROM pg_index i
	JOIN pg_class t ON t.oid = i.indrelid JOIN pg_am a ON a.oid = t.relam
	JOIN pg_class x ON x.oid = i.indexrelid
	JOIN pg_am b ON b.oid = x.relam AND b.amname = 'btree',
	LATERAL pg_temp.index_fault(i.indexrelid) f
	WHERE a.amname = 'zheap' AND f IS NOT NULL});
	return is($bad, '', "pages and indexes: $what");
}

# One line a table: rows and a hash that their order doesn't change.
sub tables_digest
{
	my ($node, $tables, $db) = @_;
	return join "\n", map {
		$node->safe_psql($db // 'postgres',
			"SELECT '$_', count(*), sum(hashtextextended(t::text, 0)::numeric) FROM $_ t")
	} @$tables;
}

# All that aborted is undone and all undo discarded.
sub undo_quiet
{
	my ($node, $what) = @_;
	return ok(
		$node->poll_query_until('postgres',
			'SELECT pg_zheap_undo_size() = 0 AND u = h FROM zheap_horizons()'),
		"undo is drained: $what");
}

# No assertion, panic or crashed process in a node's log, no complaint of ours.
sub log_is_clean
{
	my ($node, $except) = @_;
	my @bad = grep {
		/TRAP:|PANIC:|runtime error:|AddressSanitizer|terminated by signal|could not roll back|WARNING:.*undo|inconsistent page|buffer refcount leak|XX001/
		  && !($except && /$except/)
	} split /\n/, slurp_file($node->logfile);
	return is(join("\n", @bad[ 0 .. ($#bad > 9 ? 9 : $#bad) ]),
		'', 'log of ' . $node->name);
}

# Points of assert builds (undo/undo_debug.h).  The first process to come to
# the point obeys: "crash", "error" or "wait"; with a pid, that process only.
# Returns the order's file, which is gone as soon as it is obeyed.
sub order_point
{
	my ($node, $point, $order, $pid) = @_;
	my $folder = $node->data_dir . '/zheap_points';

	mkdir $folder;
	put("$folder/new", $order . (defined $pid ? " $pid" : ''));
	rename "$folder/new", "$folder/$point";
	return "$folder/$point";
}

# Until a process waits at a point; false if none does within three minutes.
sub wait_at_point
{
	my ($node, $point) = @_;
	for (1 .. 1800)
	{
		return 1 if -e $node->data_dir . "/zheap_points/$point.at";
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

# Whoever waits there goes on, and nobody stops there any more.
sub leave_point
{
	my ($node, $point) = @_;
	unlink map { $node->data_dir . "/zheap_points/$point$_" } '', '.at';
}

# Sessions that are interrupted in the middle of a long walk: by a request that
# cancels nothing, then by two that do.  "start", if given, gets the new session
# and its pid to where "go" has it walk; "end" cleans up.  $answer is what the
# first of them is to say.
sub interrupt_walk
{
	my ($node, $name, $answer, %do) = @_;

	for my $case (
		[ 'pg_log_backend_memory_contexts', $answer ],
		[ 'pg_cancel_backend', qr/canceling statement due to user request/ ],
		[ 'pg_terminate_backend', undef ])
	{
		my ($function, $expected) = @$case;
		my $logged = -s $node->logfile;
		my $s = session($node);
		my $pid = ask($s, 'SELECT pg_backend_pid()');

		$do{start}->($s, $pid) if $do{start};
		order_point($node, 'long-walk', 'wait', $pid);
		$do{go}->($s);
		ok(wait_at_point($node, 'long-walk'), "$name is in the middle of its walk");
		is($node->safe_psql('postgres', "SELECT $function($pid)"), 't', "... $function");
		leave_point($node, 'long-walk');
		if (defined $expected)
		{
			like(ask($s, 'ROLLBACK'), $expected, '... its answer');
		}
		else
		{
			# psql may be gone before it has told
			ok( $node->poll_query_until('postgres',
					"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid"),
				'... it is gone');
			like(slurp_file($node->logfile, $logged),
				qr/FATAL: .*terminating connection due to administrator command/, '... and says why');
		}
		finish_session($s);
		$do{end}->() if $do{end};
	}
	return;
}

# Files of a stopped server.
sub overwrite
{
	my ($file, $at, $bytes) = @_;
	open(my $fh, '+<:raw', $file) or die "$file: $!";
	seek $fh, $at, 0;
	print $fh $bytes;
	close $fh;
}

sub content
{
	my ($file) = @_;
	open(my $fh, '<:raw', $file) or die "$file: $!";
	local $/;
	return scalar <$fh>;
}

sub put
{
	my ($file, $bytes) = @_;
	open(my $fh, '>:raw', $file) or die "$file: $!";
	print $fh $bytes;
	close $fh;
}

1;
