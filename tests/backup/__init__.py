"""Backup and restore: real servers, hostile archives, kills."""
