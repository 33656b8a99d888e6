"""What servers of a database are asked: by operators, by nodes before they trim, by whoever needs the log kept."""
