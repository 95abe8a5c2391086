"""Serve the console: the gateway's pages for people, rendered on the server.

Pages read data with `service` and `sql`. Changes use the same functions as the API, with the caller's scopes, tenant,
quotas and audit records. Each change is a plain form, so changes work without JavaScript. After a change, the response
redirects the browser (303) to a page with the message.

    routes       all routes of the console: pages, sign-in, live updates, static files
    pages        one module for each family of pages
    access       find the viewer by its session cookie, and check scopes and the origin of a change
    signing_in   exchange an API key for a session; sign out; choose the tenant and the theme
    single_sign_on  sign in at the identity provider
    failures     the page that answers a refusal, a missing page or an error
    compression  compress static files and shared pages
    caching      answer equal requests within a second with one rendered page
    live         notify open pages of changes, by server-sent events
    forms        read a form or a filter; redirect after a change
    refused_form show the page of a refused form again, with the typed texts
    shell        render a template with the shared values and the security headers
    fields       types of the fields in filters
    strip        draw the last firings of a schedule
    past         draw the firings, deliveries and dead letters of the last two hours
    diagram      draw a process, with the tokens and due dates of an instance
    formats, addresses, cookies, navigation, assets, bars   parts of pages
"""
