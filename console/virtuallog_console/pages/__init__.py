"""Pages of the console: templates, style and scripts that show views, without a build step.

    request -> a page of `Pages` -> views -> a template -> text

A page is whole without JavaScript. The scripts keep what is shown up to date: `refresh.js` puts a new part of the same page in the place of the
old one, and `tail.js` adds rows that the server has made. Each value passes `shown_text`, and the template escapes it.
"""
