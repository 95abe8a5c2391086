// Runs oidc-provider for a test. The argument is a JSON object: `modules` (the folder of the package), `port`, `keys`
// (a JWK set), `client`, and `people` (claims by their subject). A person signs in by typing the subject.
const { modules, port, keys, client, people } = JSON.parse(process.argv[2]);
const { default: Provider } = await import(`${modules}/oidc-provider/lib/index.js`);

const provider = new Provider(`http://localhost:${port}`, {
  clients: [client],
  jwks: keys,
  cookies: { keys: ["test"] },
  scopes: ["openid", "profile", "email", "groups"],
  claims: { openid: ["sub"], profile: ["preferred_username"], email: ["email"], groups: ["groups"] },
  pkce: { required: () => true },
  enabledJWA: { idTokenSigningAlgValues: ["RS256", "ES256", "EdDSA"] },
  features: { rpInitiatedLogout: { enabled: true } },
  findAccount: (_, subject) => people[subject] && {
    accountId: subject,
    claims: () => ({ sub: subject, ...people[subject] }),
  },
});
const server = provider.listen(port, "127.0.0.1", () => console.log("ready"));
process.on("SIGTERM", () => server.close(() => process.exit(0)));
