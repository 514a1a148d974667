"""The connection to a MySQL or MariaDB server: login, facts about the server, and its errors."""
