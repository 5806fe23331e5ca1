import Script from "next/script";

export const metadata = { title: "Stack", icons: "/nextjs/foretoken/icon.svg" };

// What is in public/ is named with the base path here. The element loads the rest from its own folder.
export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>
        {children}
        <Script type="module" src="/nextjs/foretoken/widget.js" />
      </body>
    </html>
  );
}
