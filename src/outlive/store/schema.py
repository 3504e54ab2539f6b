"""The tables of the registry. Data only; `writer` runs it.

The registry is an index of the process folders: one that another schema has made is made anew from them,
never converted.
"""

VERSION = 2  # `PRAGMA user_version` of such a file; 0 is one that has no tables yet

# Of few processes, however long the history is; a query says it in these words to use the index.
UNFINISHED = (
    "(is_closed = 0 OR descendants > 0 OR state IN ('paused', 'queued', 'running', 'starting', 'stopping'))"
)

# The columns of `processes` are `rows.COLUMNS`, in that order.
SCHEMA = f"""
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
        ended_boot_id TEXT,
        ended_boottime_ns INTEGER,
        stdout_bytes INTEGER NOT NULL,
        stderr_bytes INTEGER NOT NULL,
        complete_stdout INTEGER,
        complete_stderr INTEGER,
        is_complete INTEGER NOT NULL,
        is_closed INTEGER NOT NULL,
        has_gaps INTEGER NOT NULL,
        lost_bytes INTEGER,
        descendants INTEGER NOT NULL,
        is_detached INTEGER NOT NULL,
        timeout_s REAL,
        grace_s REAL NOT NULL,
        output_limit INTEGER,
        tags TEXT,
        group_name TEXT,
        project TEXT,
        number INTEGER,
        start_key TEXT,
        name TEXT,
        origin TEXT,
        terminal TEXT,
        location TEXT,
        needs TEXT,
        sandbox TEXT,
        secret_names TEXT,
        redacted INTEGER NOT NULL
    ) WITHOUT ROWID;
    -- Partial indexes: most processes have no session, command id, tag, group, number, key or name, and are finished.
    CREATE INDEX processes_by_connection ON processes (connection_id, process_id) WHERE connection_id NOT NULL;
    CREATE INDEX processes_by_command_id ON processes (command_id) WHERE command_id NOT NULL;
    CREATE INDEX processes_unfinished ON processes (principal, process_id) WHERE {UNFINISHED};
    -- An index for each filter of a list (`registry.select_processes`).
    CREATE INDEX processes_by_principal ON processes (principal, is_detached, process_id);
    -- Nearly all are exited: these are found as fast by their principal.
    CREATE INDEX processes_by_state ON processes (principal, is_detached, state, process_id) WHERE state <> 'exited';
    CREATE INDEX processes_by_group ON processes (principal, group_name, process_id) WHERE group_name NOT NULL;
    CREATE INDEX processes_by_project ON processes (principal, coalesce(project, ''), process_id);
    CREATE INDEX processes_by_number ON processes (principal, coalesce(project, ''), number, process_id)
        WHERE number NOT NULL;
    CREATE INDEX processes_by_key ON processes (principal, coalesce(project, ''), start_key, process_id)
        WHERE start_key NOT NULL;
    CREATE INDEX processes_by_name ON processes (principal, name, process_id) WHERE name NOT NULL;
    -- What ran the same words in the same folder. The beginning of the words is enough: of a line of 100 KB an index would
    -- double the file.
    CREATE INDEX processes_by_run ON processes (principal, cwd, substr(command, 1, 64), process_id) WHERE started_ns NOT NULL;
    -- Tags are in a table of their own, which triggers keep up to date, so that they can be indexed.
    CREATE TABLE process_tags (
        owner TEXT NOT NULL,
        tag TEXT NOT NULL,
        content TEXT NOT NULL,
        process_id TEXT NOT NULL,
        PRIMARY KEY (owner, tag, content, process_id)
    ) WITHOUT ROWID;
    CREATE INDEX process_tags_by_process ON process_tags (process_id);
    CREATE TRIGGER processes_tagged AFTER INSERT ON processes BEGIN
        DELETE FROM process_tags WHERE process_id = new.process_id;
        INSERT INTO process_tags SELECT new.principal, key, value, new.process_id FROM json_each(new.tags);
    END;
    CREATE TRIGGER processes_untagged AFTER DELETE ON processes BEGIN
        DELETE FROM process_tags WHERE process_id = old.process_id;
    END;
    CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;
"""  # noqa: E501, S608 -- lines of a table, of our own words
