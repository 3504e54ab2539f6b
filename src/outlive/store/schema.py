"""The tables of the registry, and how an older file is brought to the newest version (`PRAGMA user_version`). Data only; `writer` runs it."""

# One script for each version; a released one never changes. The columns are `rows.COLUMNS`, in that order.
MIGRATIONS = (
    # 1: one row for each process. Partial indexes: most processes have no connection or command id, and are finished.
    """
    CREATE TABLE processes (
        process_id TEXT PRIMARY KEY NOT NULL,
        command_id TEXT,
        principal TEXT NOT NULL,
        connection_id TEXT,
        request_id TEXT,
        command TEXT NOT NULL,
        shell TEXT,
        cwd TEXT NOT NULL,
        stdio TEXT NOT NULL,
        stdin TEXT NOT NULL,
        state TEXT NOT NULL,
        pid INTEGER,
        cause TEXT NOT NULL,
        exit_code INTEGER,
        exit_signal INTEGER,
        error TEXT,
        created_ns INTEGER NOT NULL,
        started_ns INTEGER,
        ended_ns INTEGER,
        stdout_bytes INTEGER NOT NULL,
        stderr_bytes INTEGER NOT NULL,
        complete_stdout INTEGER,
        complete_stderr INTEGER,
        is_complete INTEGER NOT NULL,
        is_closed INTEGER NOT NULL,
        has_gaps INTEGER NOT NULL,
        descendants INTEGER NOT NULL,
        is_detached INTEGER NOT NULL,
        timeout_s REAL,
        grace_s REAL NOT NULL,
        output_limit INTEGER,
        tags TEXT,
        group_name TEXT
    ) WITHOUT ROWID;
    CREATE INDEX processes_by_connection ON processes (connection_id, process_id) WHERE connection_id NOT NULL;
    CREATE INDEX processes_by_command_id ON processes (command_id) WHERE command_id NOT NULL;
    CREATE INDEX processes_unfinished ON processes (process_id) WHERE is_closed = 0;
    CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;
    """,
    # 2: the profile in which a process runs, and the names of its secret variables.
    """
    ALTER TABLE processes ADD COLUMN sandbox TEXT;
    ALTER TABLE processes ADD COLUMN secret_names TEXT;
    """,
    # 3: processes that are the shell of a terminal.
    """
    ALTER TABLE processes ADD COLUMN terminal TEXT;
    """,
    # 4: processes that run elsewhere, in a container or on a node.
    """
    ALTER TABLE processes ADD COLUMN location TEXT;
    """,
    # 5: the end by the clock since boot, by which records age (`retention`).
    """
    ALTER TABLE processes ADD COLUMN ended_boot_id TEXT;
    ALTER TABLE processes ADD COLUMN ended_boottime_ns INTEGER;
    """,
    # 6: output that was lost.
    """
    ALTER TABLE processes ADD COLUMN lost_bytes INTEGER;
    """,
    # 7: an index for each filter of a list (`registry.select_processes`). Tags are in a table of their own, which triggers
    # keep up to date, so that they can be indexed.
    """
    CREATE INDEX processes_by_principal ON processes (principal, is_detached, process_id);
    CREATE INDEX processes_by_state ON processes (principal, is_detached, state, process_id);
    CREATE INDEX processes_by_pid ON processes (principal, pid, process_id) WHERE pid NOT NULL;
    CREATE INDEX processes_by_group ON processes (principal, group_name, process_id) WHERE group_name NOT NULL;
    CREATE INDEX processes_left ON processes (principal, process_id) WHERE descendants > 0;
    CREATE TABLE process_tags (
        owner TEXT NOT NULL,
        tag TEXT NOT NULL,
        content TEXT NOT NULL,
        process_id TEXT NOT NULL,
        PRIMARY KEY (owner, tag, content, process_id)
    ) WITHOUT ROWID;
    CREATE INDEX process_tags_by_process ON process_tags (process_id);
    INSERT INTO process_tags
        SELECT principal, one.key, one.value, process_id FROM processes, json_each(tags) AS one WHERE tags NOT NULL;
    CREATE TRIGGER processes_tagged AFTER INSERT ON processes BEGIN
        DELETE FROM process_tags WHERE process_id = new.process_id;
        INSERT INTO process_tags SELECT new.principal, key, value, new.process_id FROM json_each(new.tags);
    END;
    CREATE TRIGGER processes_untagged AFTER DELETE ON processes BEGIN
        DELETE FROM process_tags WHERE process_id = old.process_id;
    END;
    """,
    # 8: how many secrets are redacted in the command.
    """
    ALTER TABLE processes ADD COLUMN redacted INTEGER;
    """,
    # 9: the project of a process, its short id there, and the key that its caller gave it.
    """
    ALTER TABLE processes ADD COLUMN project TEXT;
    ALTER TABLE processes ADD COLUMN number INTEGER;
    ALTER TABLE processes ADD COLUMN start_key TEXT;
    CREATE INDEX processes_by_project ON processes (principal, coalesce(project, ''), process_id);
    CREATE INDEX processes_by_number ON processes (principal, coalesce(project, ''), number, process_id)
        WHERE number NOT NULL;
    CREATE INDEX processes_by_key ON processes (principal, coalesce(project, ''), start_key, process_id)
        WHERE start_key NOT NULL;
    """,
    # 10: what its caller has called a process.
    """
    ALTER TABLE processes ADD COLUMN name TEXT;
    CREATE INDEX processes_by_name ON processes (principal, name, process_id) WHERE name NOT NULL;
    """,
    # 11: where its start came from.
    """
    ALTER TABLE processes ADD COLUMN origin TEXT;
    """,
    # 12: what ran the same words in the same folder. The beginning of the words is enough: of a line of 100 KB an index would double the file.
    """
    CREATE INDEX processes_by_run ON processes (principal, cwd, substr(command, 1, 64), process_id) WHERE started_ns NOT NULL;
    """,
    # 13: what a process needs of the machine that runs it.
    """
    ALTER TABLE processes ADD COLUMN needs TEXT;
    """,
)
