"""Identity of callers and what they may call: certificates, the TLS stream, and the permissions of roles. Imports the contract only; trio and ssl."""
