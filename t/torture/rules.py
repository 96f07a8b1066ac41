"""What torture.py and those who take part in it share."""


class Lost(Exception):
    """Something that must hold doesn't."""


def outside(conn, sql):
    """Run what no transaction block may contain."""
    conn.autocommit = True
    try:
        conn.cursor().execute(sql)
    finally:
        if not conn.closed:
            conn.autocommit = False
